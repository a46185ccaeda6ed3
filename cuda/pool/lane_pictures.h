// SPDX-License-Identifier: Apache-2.0
// The pictures behind a lane's observations, drawn only when somebody looks and kept by no lane in the usual case.
//
// A machine has two picture buffers, and a frame that ends early leaves the rows below as they were two frames ago. To
// keep 70 KB of pixels a lane for that would be most of its memory, and drawing every frame most of its time. Instead a
// lane keeps how its last two frames began (FrameStart). Frames that are shown are drawn into buffers of the thread. As
// long as every frame draws all rows, any earlier picture can be drawn again from its start. When a frame does not, the
// pictures that matter are drawn again and the lane keeps their rows from the first one on that a frame has not reached
// (StoredRows), until the last two frames are whole again. The rows above can still be drawn again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "envs/atari_lane.h"
#include "observation/plane_resizer.h"

namespace seed {

// What all lanes of a pool share.
struct PictureFormat {
  PictureFormat(const Display& display, int img_height, int img_width, bool grayscale, SimdLevel simd)
      : display(display),
        resizer(display.height, kScreenWidth, img_height, img_width, simd),
        num_channels(grayscale ? 1 : 3) {}

  size_t picture_bytes() const { return size_t{display.height} * kScreenWidth; }
  size_t plane_bytes() const { return size_t(resizer.plan().height) * resizer.plan().width; }
  size_t shown_bytes() const { return plane_bytes() * num_channels; }  // one picture of an observation
  // One gray channel can be drawn at once.
  const uint8_t* shades() const { return num_channels == 1 ? channels[0] : nullptr; }

  Display display;
  PlaneResizer resizer;
  int num_channels;
  uint8_t channels[3][256];    // what a pixel value is in each channel: gray, or red, green, blue
  bool keep_pictures = false;  // every lane stores all rows, always
};

// Bytes kept as runs of equal ones: pairs of a length and a value. Pictures shrink to a tenth.
class PackedBytes {
 public:
  void pack(const uint8_t* bytes, size_t count) {
    std::vector<uint8_t> runs;
    for (size_t begin = 0, end; begin < count; begin = end) {
      const size_t limit = std::min(count, begin + 255);
      for (end = begin + 1; end < limit && bytes[end] == bytes[begin];) ++end;
      runs.push_back(uint8_t(end - begin));
      runs.push_back(bytes[begin]);
    }
    runs.shrink_to_fit();
    runs_ = std::move(runs);
  }
  void unpack(uint8_t* bytes) const {
    for (size_t i = 0; i < runs_.size(); bytes += runs_[i], i += 2) std::memset(bytes, runs_[i + 1], runs_[i]);
  }
  size_t memory_bytes() const { return runs_.capacity(); }

 private:
  std::vector<uint8_t> runs_;
};

// The lower rows of one lane's pictures: those from `first_row` on.
struct StoredRows {
  StoredRows(const PictureFormat& format, int first_row)
      : first_row(first_row),
        offset(size_t(first_row) * kScreenWidth),
        picture_bytes(format.picture_bytes()),
        num_channels(format.num_channels) {}

  size_t num_bytes() const { return picture_bytes - offset; }  // of a picture's rows, or a channel's
  size_t memory_bytes() const {
    size_t bytes = sizeof *this;
    for (const PackedBytes& rows : buffers) bytes += rows.memory_bytes();
    for (const PackedBytes& rows : shown) bytes += rows.memory_bytes();
    return bytes;
  }

  // Between a buffer of the machine and its rows here.
  void take(int buffer, const uint8_t* picture) { buffers[buffer].pack(picture + offset, num_bytes()); }
  void give(int buffer, uint8_t* picture) const { buffers[buffer].unpack(picture + offset); }

  // Between whole channels, one after the other, and their rows here.
  void take_shown(const uint8_t* channels) {
    for (int i = 0; i < num_channels; ++i, channels += picture_bytes) shown[i].pack(channels + offset, num_bytes());
  }
  void give_shown(uint8_t* channels) const {
    for (int i = 0; i < num_channels; ++i, channels += picture_bytes) shown[i].unpack(channels + offset);
  }

  int first_row;
  size_t offset;  // of that row in a picture
  size_t picture_bytes;
  int num_channels;
  PackedBytes buffers[2];  // the machine's, palette indices
  PackedBytes shown[3];    // the channels of what the last observation shows
};

// The small part: how pictures began.
struct PictureStarts {
  FrameStart frames[2];  // of the last frame in each buffer
  FrameStart shown[2];   // of the frames that the last observation shows
  Shown what_was_shown;  // kLastFrame or kLastTwoFrames
  uint8_t shown_buffer;  // the buffer of the later one
};

struct LanePictures {
  PictureStarts starts;
  std::unique_ptr<StoredRows> stored;  // null in the usual case

  bool are_whole() const { return starts.frames[0].whole && starts.frames[1].whole; }
};

// One thread's tools: draws, pools and resizes for one lane after the other.
class Painter {
 public:
  Painter(const PictureFormat& format, const Rom& rom)
      : format_(format),
        rom_(rom),
        resize_scratch_(format.resizer.make_scratch()),
        shown_(format.picture_bytes() * size_t(format.num_channels) + kResizePadding),
        plane_(format.num_channels == 1 ? 0 : format.plane_bytes()) {
    for (std::vector<uint8_t>& buffer : buffers_) buffer.resize(format.picture_bytes() + kResizePadding);
  }

  size_t memory_bytes() const {
    return buffers_[0].size() * 2 + first_.size() + shown_.size() + plane_.size() + resize_scratch_.memory_bytes();
  }

  // ---- Resets ----

  // Runs `reset(screen)`; when its last pictures are not whole, takes the lane back and runs it again with pixels.
  template <class Reset>
  void reset(Lane& lane, LanePictures& pictures, Reset&& reset) {
    FrameStart* const starts = pictures.starts.frames;
    pictures.stored.reset();
    if (!format_.keep_pictures) {
      const Lane before = lane;
      reset(Screen{{nullptr, nullptr}, {&starts[0], &starts[1]}});
      if (pictures.are_whole()) return;
      lane = before;
    }
    reset(own_screen(starts, false));
    const int first_row = std::min(starts[0].num_rows, starts[1].num_rows);
    pictures.stored = std::make_unique<StoredRows>(format_, format_.keep_pictures ? 0 : first_row);
    for (int buffer : {0, 1}) pictures.stored->take(buffer, buffers_[buffer].data());
  }

  // ---- Steps: the object `pictures` of lane_step() ----

  void begin_step(LanePictures& pictures) {
    pictures_ = &pictures;
    num_shown_ = 0;
    has_first_ = false;
    PictureStarts& starts = pictures.starts;
    std::memcpy(starts.shown, starts.frames, sizeof starts.shown);
  }

  Screen begin_frame(const Console& console, bool shown) {
    FrameStart* const starts = pictures_->starts.frames;
    const StoredRows* const stored = pictures_->stored.get();
    const int next = (console.current_buffer ^ (console.partial ? 0 : 1)) & 1;
    num_shown_ += shown;
    replaced_ = starts[next];
    if (stored != nullptr) stored->give(next, buffers_[next].data());
    if (stored != nullptr || shown) return own_screen(starts, stored == nullptr);
    return Screen{{nullptr, nullptr}, {&starts[0], &starts[1]}};
  }

  void end_frame(const Console& console) {
    const int now = console.current_buffer & 1, num_rows = pictures_->starts.frames[now].num_rows;
    const StoredRows* const before = pictures_->stored.get();
    if (num_rows < (before == nullptr ? format_.display.height : before->first_row)) {
      store_rows(now, num_rows);
    } else if (before != nullptr) {
      pictures_->stored->take(now, buffers_[now].data());
    }
    // The next call may go on with the same frame, in the same buffer.
    if (pictures_->stored && num_shown_ == 1) {
      first_ = buffers_[now];
      has_first_ = true;
    }
  }

  // ---- Observations ----

  // Resizes what a reset or step shows into `target` (shown_bytes()); false for kNothingNew, which leaves it alone.
  bool paint(const Console& console, LanePictures& pictures, Shown shown, bool after_reset, uint8_t* target);

 private:
  // The buffers of the thread. `shaded`: they get shades of gray where there is one channel, else pixel values.
  Screen own_screen(FrameStart* starts, bool shaded) {
    Screen screen{{buffers_[0].data(), buffers_[1].data()}, {}, shaded ? format_.shades() : nullptr};
    if (starts != nullptr) screen.starts[0] = &starts[0], screen.starts[1] = &starts[1];
    return screen;
  }

  void draw_again(const FrameStart& start, Screen screen) const {
    console_draw_again(start, rom_, format_.display, screen);
  }

  void store_rows(int now, int first_row);
  void show(const uint8_t* picture, bool is_shaded, uint8_t* out) const;
  void show_too(const uint8_t* picture, const uint8_t* shown, bool is_shaded, uint8_t* out) const;
  void show_previous(const LanePictures& pictures, uint8_t* out);
  void resize_shown(uint8_t* target);

  const PictureFormat& format_;
  const Rom& rom_;
  ResizeScratch resize_scratch_;
  std::vector<uint8_t> buffers_[2];
  std::vector<uint8_t> shown_;  // all channels of what an observation shows, full size
  std::vector<uint8_t> plane_;  // one resized channel of a colour picture
  std::vector<uint8_t> first_;  // the first of two pictures that a step shows
  LanePictures* pictures_ = nullptr;
  int num_shown_ = 0;  // frames of the step that are shown and have begun
  bool has_first_ = false;
  FrameStart replaced_;  // start of the picture that the present frame draws over
};

// The frame that has just run, in buffer `now`, has not reached `first_row`: from here on the lane keeps its pictures'
// rows from there.
inline void Painter::store_rows(int now, int first_row) {
  const PictureStarts& starts = pictures_->starts;
  const StoredRows* const before = pictures_->stored.get();
  auto stored = std::make_unique<StoredRows>(format_, first_row);
  show_previous(*pictures_, shown_.data());
  stored->take_shown(shown_.data());
  const Screen screen = own_screen(nullptr, false);
  draw_again(starts.frames[now ^ 1], screen);
  draw_again(replaced_, screen);
  if (before != nullptr) {
    for (int buffer : {0, 1}) before->give(buffer, buffers_[buffer].data());
  }
  draw_again(starts.frames[now], screen);
  for (int buffer : {0, 1}) stored->take(buffer, buffers_[buffer].data());
  pictures_->stored = std::move(stored);
}

// Writes a picture's channels to `out`.
inline void Painter::show(const uint8_t* picture, bool is_shaded, uint8_t* out) const {
  const size_t bytes = format_.picture_bytes();
  if (is_shaded) return void(std::memcpy(out, picture, bytes));
  for (int channel = 0; channel < format_.num_channels; ++channel, out += bytes) {
    const uint8_t* const map = format_.channels[channel];
    for (size_t i = 0; i < bytes; ++i) out[i] = map[picture[i]];
  }
}

// Raises `out` to the maximum with another picture's channels. `shown`: a picture that `out` contains already, or null;
// most of the other one looks the same and is passed over, eight pixels at a time.
inline void Painter::show_too(const uint8_t* picture, const uint8_t* shown, bool is_shaded, uint8_t* out) const {
  const size_t bytes = format_.picture_bytes();
  for (size_t begin = 0; begin < bytes; begin += 8) {
    if (shown != nullptr && std::memcmp(picture + begin, shown + begin, 8) == 0) continue;
    for (int channel = 0; channel < format_.num_channels; ++channel) {
      uint8_t* const target = out + size_t(channel) * bytes;
      for (size_t i = begin; i < begin + 8; ++i) {
        const uint8_t value = is_shaded ? picture[i] : format_.channels[channel][picture[i]];
        target[i] = std::max(target[i], value);
      }
    }
  }
}

// What the last observation shows, drawn again. Uses the thread's buffers.
inline void Painter::show_previous(const LanePictures& pictures, uint8_t* out) {
  const PictureStarts& starts = pictures.starts;
  const bool is_shaded = format_.shades() != nullptr;
  const int later = starts.shown_buffer;
  draw_again(starts.shown[later], own_screen(nullptr, true));
  show(buffers_[later].data(), is_shaded, out);
  if (starts.what_was_shown != Shown::kLastFrame) {
    draw_again(starts.shown[later ^ 1], own_screen(nullptr, true));
    show_too(buffers_[later ^ 1].data(), buffers_[later].data(), is_shaded, out);
  }
  if (pictures.stored) pictures.stored->give_shown(out);
}

inline void Painter::resize_shown(uint8_t* target) {
  if (format_.num_channels == 1) return format_.resizer.run(shown_.data(), nullptr, target, resize_scratch_);
  for (size_t channel = 0; channel < 3; ++channel) {
    format_.resizer.run(shown_.data() + channel * format_.picture_bytes(), nullptr, plane_.data(), resize_scratch_);
    for (size_t i = 0; i < plane_.size(); ++i) target[3 * i + channel] = plane_[i];
  }
}

inline bool Painter::paint(const Console& console, LanePictures& pictures, Shown shown, bool after_reset,
                           uint8_t* target) {
  if (shown == Shown::kNothingNew) return false;
  const int now = console.current_buffer & 1;
  PictureStarts& starts = pictures.starts;
  StoredRows* const stored = pictures.stored.get();
  const bool is_shaded = stored == nullptr && format_.shades() != nullptr;
  if (after_reset && stored == nullptr) draw_again(starts.frames[now], own_screen(nullptr, true));
  const uint8_t* const last = buffers_[now].data();
  const uint8_t* const other = has_first_ && !after_reset ? first_.data() : buffers_[now ^ 1].data();
  if (is_shaded && shown != Shown::kPreviousAndFirst) {
    format_.resizer.run(last, shown == Shown::kLastTwoFrames ? other : nullptr, target, resize_scratch_);
  } else if (shown == Shown::kPreviousAndFirst) {
    if (other != first_.data()) first_.assign(other, other + format_.picture_bytes());
    show_previous(pictures, shown_.data());  // draws over the buffers
    show_too(first_.data(), nullptr, is_shaded, shown_.data());
    resize_shown(target);
  } else {
    show(last, is_shaded, shown_.data());
    if (shown == Shown::kLastTwoFrames) show_too(other, last, is_shaded, shown_.data());
    resize_shown(target);
  }
  if (shown == Shown::kPreviousAndFirst) return true;  // the episode has ended: nothing will build on it
  starts.what_was_shown = shown;
  starts.shown_buffer = uint8_t(now);
  if (stored == nullptr) return true;
  stored->take_shown(shown_.data());
  if (pictures.are_whole() && !format_.keep_pictures) pictures.stored.reset();
  return true;
}

}  // namespace seed
