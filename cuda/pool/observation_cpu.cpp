// SPDX-License-Identifier: Apache-2.0
// C ABI of the picture operations (seed/observation.h).
#include <new>
#include <vector>

#include "error.h"
#include "observation/plane_resizer.h"
#include "seed/observation.h"

namespace {

constexpr int32_t kMaxSide = 4096;

bool side_is_legal(int32_t side) { return side >= 1 && side <= kMaxSide; }

// Resizes one of `channels` interleaved planes.
void resize_channel(const seed::PlaneResizer& resizer, const uint8_t* source, int channels, int channel,
                    uint8_t* target) {
  const seed::ResizePlan& plan = resizer.plan();
  const size_t source_size = size_t(plan.source_height) * plan.source_width;
  std::vector<uint8_t> plane(source_size + seed::kResizePadding), resized(size_t(plan.height) * plan.width);
  for (size_t i = 0; i < source_size; ++i) plane[i] = source[i * channels + channel];
  seed::ResizeScratch scratch = resizer.make_scratch();
  resizer.run(plane.data(), nullptr, resized.data(), scratch);
  for (size_t i = 0; i < resized.size(); ++i) target[i * channels + channel] = resized[i];
}

}  // namespace

extern "C" seed_status seed_observation_resize(const uint8_t* source, int32_t source_height, int32_t source_width,
                                               int32_t channels, uint8_t* target, int32_t height, int32_t width,
                                               int32_t use_simd) {
  if (source == nullptr || target == nullptr) return seed::fail(SEED_INVALID_ARGUMENT, "a picture pointer is NULL");
  if (channels != 1 && channels != 3) return seed::fail(SEED_INVALID_ARGUMENT, "channels is %d: use 1 or 3", channels);
  for (const int32_t side : {source_height, source_width, height, width})
    if (!side_is_legal(side))
      return seed::fail(SEED_INVALID_ARGUMENT, "a picture side is %d: use 1 to %d", side, kMaxSide);
  try {
    const seed::SimdLevel simd = use_simd ? seed::detect_simd() : seed::SimdLevel::kScalar;
    const seed::PlaneResizer resizer(source_height, source_width, height, width, simd);
    for (int channel = 0; channel < channels; ++channel) resize_channel(resizer, source, channels, channel, target);
  } catch (const std::bad_alloc&) {
    return seed::fail(SEED_OUT_OF_MEMORY, "no memory for a picture of %d x %d", height, width);
  }
  return SEED_OK;
}
