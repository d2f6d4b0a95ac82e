// Prints the instruction set that oneDNN takes here. With ONEDNN_MAX_CPU_ISA it is that one or a lower one.
#include <cstdio>
#include <dnnl.hpp>

int main() { std::printf("%d\n", int(dnnl::get_effective_cpu_isa())); }
