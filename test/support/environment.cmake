# What ctest reads before it runs tests: their environment. Threads of a kernel that wait for each other sleep. Two tests
# run side by side, each with as many threads as there are cores; those of OpenMP would look for work for a millisecond on
# a core that another thread needs, after every kernel. A small network trained with an eighth of the processor time.
if(NOT DEFINED ENV{OMP_WAIT_POLICY} AND NOT DEFINED ENV{GOMP_SPINCOUNT})
  set(ENV{OMP_WAIT_POLICY} passive)
endif()
# Plans are for a fixed machine, so that tests expect the same choices everywhere.
set(ENV{TESSERA_TOPOLOGY} cpu)
