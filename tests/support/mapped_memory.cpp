// SPDX-License-Identifier: Apache-2.0
#include "support/mapped_memory.hpp"

#include <stdexcept>
#include <string>

#ifdef GPUDNN_WITH_CUDA
#include <cuda.h>
#include <cuda_runtime.h>

namespace gpudnn::test {
namespace {

// A function of the driver, which the runtime knows.
template <class Function>
Function* driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  return reinterpret_cast<Function*>(function);
}

void require(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(what) + ": " + std::to_string(result));
}

}  // namespace

MappedMemory::MappedMemory(std::size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  std::size_t grain = 0;
  require(driver<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
              &grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
  mapped_ = (bytes + grain - 1) / grain * grain;
  reserved_ = mapped_ + grain;  // so that nothing else is mapped behind it
  CUdeviceptr address = 0;
  require(driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, reserved_, 0, 0, 0),
          "cuMemAddressReserve");
  CUmemGenericAllocationHandle memory = 0;
  require(driver<decltype(cuMemCreate)>("cuMemCreate")(&memory, mapped_, &properties, 0), "cuMemCreate");
  require(driver<decltype(cuMemMap)>("cuMemMap")(address, mapped_, 0, memory, 0), "cuMemMap");
  require(driver<decltype(cuMemRelease)>("cuMemRelease")(memory), "cuMemRelease");  // once it is unmapped
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  require(driver<decltype(cuMemSetAccess)>("cuMemSetAccess")(address, mapped_, &access, 1), "cuMemSetAccess");
  start_ = reinterpret_cast<unsigned char*>(address);  // NOLINT
}

MappedMemory::~MappedMemory() {
  const auto address = reinterpret_cast<CUdeviceptr>(start_);
  (void)cudaDeviceSynchronize();
  (void)driver<decltype(cuMemUnmap)>("cuMemUnmap")(address, mapped_);
  (void)driver<decltype(cuMemAddressFree)>("cuMemAddressFree")(address, reserved_);
}

}  // namespace gpudnn::test

#else

namespace gpudnn::test {

MappedMemory::MappedMemory(std::size_t) { throw std::logic_error("a build without CUDA maps no device memory"); }
MappedMemory::~MappedMemory() = default;

}  // namespace gpudnn::test

#endif
