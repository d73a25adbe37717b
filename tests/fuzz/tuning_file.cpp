// Tuning files: any bytes are taken, and what is written of them is read again as the same.
// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "ops/conv/select/tuned_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpudnn;
  const std::string_view input = fuzz::text_of(data, size);
  const conv::TunedFile file(input);
  for (const std::string& device : file.devices()) (void)file.rows_of(device).size();
  const std::string text = file.text();
  fuzz::expect(conv::TunedFile(text).text() == text, "written otherwise the second time", input);
  return 0;
}
