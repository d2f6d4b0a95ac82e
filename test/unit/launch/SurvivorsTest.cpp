// Supervisors of several machines agree on the machines that are left and number their children again.
#include "runtime/launch/Survivors.h"
#include "runtime/launch/Elastic.h"
#include "runtime/support/File.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

using namespace tessera::rt;

namespace {

struct Folder {
  std::string path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

Result<Survivors::Decision> all(const std::set<int> &left) {
  return Survivors::Decision{{left.begin(), left.end()}, "plan-x", " on some"};
}

} // namespace

TEST_CASE("all machines come to the same decision, made once") {
  Folder folder;
  const std::set<std::string> machines = {"10.0.0.1", "10.0.0.2", "fe80::3"};
  std::atomic<int> decided = 0;
  std::vector<std::vector<int>> found(3);
  std::vector<std::thread> threads;
  size_t i = 0;
  for (const std::string &machine : machines) {
    threads.emplace_back([&, i, machine] {
      Survivors survivors(folder.path, machine, 30);
      survivors.begin(false);
      const int first = int(2 * i);
      Result<Survivors::Decision> decision =
          survivors.agree(0, {first, first + 1}, machines, [&](const std::set<int> &left) {
            ++decided;
            return all(left);
          });
      if (decision && decision->plan == "plan-x" && decision->text == " on some")
        found[i] = decision->ranks;
    });
    ++i;
  }
  for (std::thread &thread : threads)
    thread.join();
  CHECK(decided == 1);
  for (const std::vector<int> &ranks : found)
    CHECK(ranks == std::vector<int>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a machine that begins after another has reported counts it nevertheless") {
  for (bool first : {false, true}) {
    Folder folder;
    const std::set<std::string> machines = {"a", "b"};
    Survivors a(folder.path, "a", 5), b(folder.path, "b", 5);
    b.begin(false);
    std::vector<int> found;
    std::thread early([&] {
      if (Result<Survivors::Decision> decision = b.agree(0, {2, 3}, machines, all))
        found = decision->ranks;
    });
    while (!fileExists(folder.path + "/.elastic/0-b"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    a.begin(first);
    Result<Survivors::Decision> decision = a.agree(0, {0, 1}, machines, all);
    early.join();
    REQUIRE(decision.ok());
    CHECK(decision->ranks == std::vector<int>{0, 1, 2, 3});
    CHECK(found == decision->ranks);
  }
}

TEST_CASE("a machine that comes too late is left out, and is told so") {
  Folder folder;
  const std::set<std::string> machines = {"a", "b"};
  Survivors a(folder.path, "a", 0.3), b(folder.path, "b", 0.3);
  a.begin(true);
  b.begin(false);
  Result<Survivors::Decision> first = b.agree(3, {2, 3}, machines, all);
  REQUIRE(first.ok());
  CHECK(first->ranks == std::vector<int>{2, 3});
  Result<Survivors::Decision> late = a.agree(3, {0, 1}, machines, all);
  REQUIRE(late.ok());
  CHECK(late->ranks == std::vector<int>{2, 3});
  // If no decision can be made, all machines fail.
  auto fails = [](const std::set<int> &) { return Result<Survivors::Decision>(Status::error("no")); };
  CHECK(b.agree(4, {2}, {"b"}, fails).status().message() == "no");
  CHECK(a.agree(4, {0}, machines, all).status().message() == "no");
  // Files that no supervisor writes.
  REQUIRE(writeFile(folder.path + "/.elastic/5-decided", "{\"ranks\": [1, 1]}").ok());
  CHECK_FALSE(a.agree(5, {0}, machines, all).ok());
  a.end();
  CHECK_FALSE(fileExists(folder.path + "/.elastic"));
}

TEST_CASE("files of an earlier run do not count") {
  Folder folder;
  Survivors old(folder.path, "b", 0);
  old.begin(false);
  REQUIRE(old.agree(0, {7}, {"b"}, all).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Survivors now(folder.path, "b", 0);
  now.begin(false); // the machine with rank 0 never came to clean up
  Result<Survivors::Decision> decision = now.agree(0, {2}, {"b"}, all);
  REQUIRE(decision.ok());
  CHECK(decision->ranks == std::vector<int>{2});
}

TEST_CASE("the children that are left are renumbered and keep their devices") {
  LaunchContext context;
  context.machines = {"a", "a", "b", "b"};
  for (int rank : {2, 3})
    context.children.push_back({rank,
                                {{"RANK", std::to_string(rank)},
                                 {"WORLD_SIZE", "4"},
                                 {"LOCAL_RANK", std::to_string(rank - 2)},
                                 {"MASTER_ADDR", "a"}}});
  LaunchContext gone = context;
  keepRanks(gone, {0, 1}, "");
  CHECK(gone.children.empty());
  keepRanks(context, {1, 3}, "run/plan-2");
  REQUIRE(context.children.size() == 1);
  CHECK(context.children[0].rank == 1);
  CHECK(context.children[0].environment ==
        std::vector<std::pair<std::string, std::string>>{{"RANK", "1"},
                                                         {"WORLD_SIZE", "2"},
                                                         {"LOCAL_RANK", "1"},
                                                         {"MASTER_ADDR", "a"},
                                                         {"LOCAL_WORLD_SIZE", "1"},
                                                         {"TESSERA_PLAN", "run/plan-2"}});
  CHECK(context.machines == std::vector<std::string>{"a", "b"});
  keepRanks(context, {1}, "run/plan-1"); // rank 0's machine is gone
  CHECK(context.children[0].environment[0].second == "0");
  CHECK(context.children[0].environment[3].second == "b");
}
