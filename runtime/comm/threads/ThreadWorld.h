//===- ThreadWorld.h - ranks as threads of one process ---------------------------------------===//
//
// The default transport on one machine and the semantic reference of the others: ranks are threads,
// and a rank reads its peers' buffers directly.
//
//   std::vector<std::unique_ptr<World>> worlds = createThreadWorlds(4);
//   for (auto &world : worlds)
//     threads.emplace_back([&world] {
//       Result<std::unique_ptr<Communicator>> all = world->group({0, 1, 2, 3});
//       ...
//       (*all)->allReduce(in, out, 1000, plan::F32, plan::SUM);
//     });
//
// A large all-reduce is two barriers: after the first, each rank reduces its slice of the elements
// over all inputs by Reduce.h, block by block, and stores it to every output. Small messages go
// through a copy in shared slots and need one barrier. All ranks get the same bits.
//
// Errors reach all members: a mismatched call, bad arguments, abort(). After a mismatch or bad
// arguments the group stays usable; after abort() every call of every group of this world fails. A
// World that is destroyed counts as a rank that left: groups that contain it fail from then on.
// Communicators may outlive their World. A communicator is used by one thread at a time; different
// communicators of a rank may be used by different threads.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_THREADS_THREADWORLD_H
#define TESSERA_RUNTIME_COMM_THREADS_THREADWORLD_H

#include "runtime/comm/Communicator.h"

namespace tessera::rt {

/// One world of `n` >= 1 ranks; element r is for the thread of rank r.
std::vector<std::unique_ptr<World>> createThreadWorlds(int n);

} // namespace tessera::rt

#endif
