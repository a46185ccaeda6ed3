// SPDX-License-Identifier: Apache-2.0
// The pool of environments behind seed/pool.h on a CUDA device: memory, launches and errors. See device_pool.h.
//
// Pointers of seed_pool_step(), seed_pool_observe(), seed_pool_ram() and all outputs are the device's; what a reset
// takes (mask, seeds, env_ids) is the host's. A step launches on the pool's stream and returns: no allocation, no
// wait, so that it can be captured in a CUDA graph. What kernels find wrong is told by seed_pool_synchronize().
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "pool/device_memory.h"
#include "pool/lane_snapshot.h"
#include "pool/picture_kernels.h"
#include "pool/pool_options.h"

namespace seed {
namespace {

// Lanes right after loading, one a pair of mode and difficulty; made on the host.
struct Starts {
  std::vector<std::pair<int32_t, int32_t>> keys;
  std::vector<Lane> lanes;
  std::vector<uint8_t> buffers;
  std::vector<uint8_t> reusable;
};

struct Pool {
  int32_t game_index;
  int device = 0;
  cudaStream_t stream = nullptr;
  seed_pool_options options;
  std::vector<uint8_t> rom_bytes;
  AtariGame game;  // with the host's pointers
  std::vector<uint8_t> action_numbers;
  std::vector<int32_t> modes, difficulties;
  Starts starts;
  bool has_reset = false;

  PoolView view{};  // what device_view holds
  DeviceArray<PoolView> device_view;
  DeviceArray<uint8_t> rom, rule_code, buffers, firsts, shown, planes, start_buffers, start_reusable, mask;
  DeviceArray<AreaTap> column_taps, row_taps;
  DeviceArray<int32_t> column_first, row_first, lane_modes, lane_difficulties, start_of_lane, seeds, env_ids;
  DeviceArray<Lane> lanes, start_lanes;
  DeviceArray<LaneResult> results;
  DeviceArray<FaultReport> report;

  int32_t num_envs() const { return options.num_envs; }
  size_t picture_bytes() const { return size_t(view.picture_bytes); }

  seed_status build(const Rom& prepared, const int32_t* given_modes, const int32_t* given_difficulties);
  seed_status build_resize();
  seed_status add_start(int32_t mode, int32_t difficulty);
  seed_status prepare_starts();
  seed_status reset_lanes(const ResetTask& task) const;
  seed_status push_pictures() const;
  seed_status write_stacks_to(uint8_t* observations, bool only_ended) const;
  seed_status write_outputs(const seed_pool_outputs& outputs) const;
  seed_status synchronize();
};

// ---- Construction ------------------------------------------------------------------------------------------------

// One axis of the resize plan.
seed_status build_axis(ResizeRule rule, int source, int target, DeviceArray<AreaTap>& taps, DeviceArray<int32_t>& first,
                       cudaStream_t stream) {
  std::vector<AreaTap> host_taps(size_t(area_axis_capacity(source, target)));
  std::vector<int32_t> host_first(size_t(target) + 1);
  area_axis_build(rule, source, target, host_taps.data(), host_first.data());
  SEED_CHECK(taps.assign(host_taps, stream));
  SEED_CHECK(first.assign(host_first, stream));
  SEED_CUDA(cudaStreamSynchronize(stream));  // the vectors end here
  return SEED_OK;
}

seed_status Pool::build_resize() {
  const int source_height = game.display.height, height = options.img_height, width = options.img_width;
  const ResizeRule rule = resize_rule(source_height, kScreenWidth, height, width);
  SEED_CHECK(build_axis(rule, kScreenWidth, width, column_taps, column_first, stream));
  SEED_CHECK(build_axis(rule, source_height, height, row_taps, row_first, stream));
  view.plan = ResizePlan{rule, source_height,      kScreenWidth,        height,          width,
                         1,    column_taps.data(), column_first.data(), row_taps.data(), row_first.data()};
  return SEED_OK;
}

seed_status Pool::build(const Rom& prepared, const int32_t* given_modes, const int32_t* given_difficulties) {
  const size_t count = size_t(num_envs());
  game = atari_game(prepared, game_index, kTables);
  action_numbers = action_numbers_of(options, game.game);
  modes.assign(count, game.default_mode);
  if (given_modes != nullptr) modes.assign(given_modes, given_modes + count);
  difficulties.assign(count, 0);
  if (given_difficulties != nullptr) difficulties.assign(given_difficulties, given_difficulties + count);

  view.options = lane_options_of(options, game.game);
  view.num_channels = options.grayscale ? 1 : 3;
  for (int channel = 0; channel < view.num_channels; ++channel)
    fill_map(view.maps[channel], game.display.pal, options.grayscale != 0, channel);
  std::copy(action_numbers.begin(), action_numbers.end(), view.action_numbers);
  view.num_actions = int32_t(action_numbers.size());
  view.num_envs = num_envs();
  view.stack_num = options.stack_num;
  view.autoreset = options.autoreset;
  view.picture_bytes = int32_t{game.display.height} * kScreenWidth;
  view.shown_bytes = options.img_height * options.img_width * view.num_channels;
  SEED_CHECK(build_resize());
  SEED_CHECK(add_start(modes[0], difficulties[0]));

  SEED_CHECK(rom.assign(rom_bytes, stream));
  SEED_CHECK(rule_code.allocate(sizeof kRuleCode));
  SEED_CHECK(rule_code.copy_from(kRuleCode, stream));
  const size_t channels = size_t(view.num_channels);
  SEED_CHECK(lanes.allocate(count));
  SEED_CHECK(results.allocate(count));
  SEED_CHECK(buffers.allocate(count * 2 * picture_bytes()));
  SEED_CHECK(firsts.allocate(count * picture_bytes()));
  SEED_CHECK(shown.allocate(count * channels * picture_bytes()));
  SEED_CHECK(planes.allocate(count * size_t(options.stack_num) * size_t(view.shown_bytes)));
  SEED_CHECK(lane_modes.allocate(count));
  SEED_CHECK(lane_difficulties.allocate(count));
  SEED_CHECK(start_of_lane.allocate(count));
  SEED_CHECK(mask.allocate(count));
  SEED_CHECK(seeds.allocate(count));
  SEED_CHECK(env_ids.allocate(count));
  SEED_CHECK(report.allocate(1));
  SEED_CHECK(device_view.allocate(1));
  SEED_CHECK(lanes.clear(stream));
  SEED_CHECK(results.clear(stream));
  SEED_CHECK(shown.clear(stream));
  SEED_CHECK(planes.clear(stream));
  SEED_CHECK(report.clear(stream));
  view.game = game;
  view.game.rom.bytes = rom.data();
  view.game.rule_code = rule_code.data();
  view.lanes = lanes.data();
  view.results = results.data();
  view.buffers = buffers.data();
  view.firsts = firsts.data();
  view.shown = shown.data();
  view.planes = planes.data();
  view.modes = lane_modes.data();
  view.difficulties = lane_difficulties.data();
  view.start_of_lane = start_of_lane.data();
  view.report = report.data();
  return SEED_OK;
}

// ---- Starts ------------------------------------------------------------------------------------------------------

seed_status Pool::add_start(int32_t mode, int32_t difficulty) {
  Lane lane{};
  std::vector<uint8_t> pictures(2 * picture_bytes());
  const LaneOptions lane_options = lane_options_of(options, game.game);
  atari_load(lane.atari, game, lane_options.atari, 0, 0, 0, Screen{{nullptr, nullptr}});
  if (lane.atari.error == AtariError::kWrongFormat)
    return fail(SEED_INVALID_ARGUMENT, "the picture's format is not that of %s: this is another ROM image",
                kGameNames[game_index]);
  bool no_draws = lane.atari.num_draws == 0;
  lane.atari.mode = mode;
  lane.atari.difficulty = uint8_t(difficulty);
  atari_reset(lane.atari, game, lane_options.atari, Screen{{pictures.data(), pictures.data() + picture_bytes()}});
  no_draws = no_draws && lane.atari.num_draws == 0 && lane.atari.environment.next == Mt19937::kWords;
  starts.keys.emplace_back(mode, difficulty);
  starts.lanes.push_back(lane);
  starts.buffers.insert(starts.buffers.end(), pictures.begin(), pictures.end());
  starts.reusable.push_back(no_draws && lane.atari.error == AtariError::kNone);
  return SEED_OK;
}

// Modes, difficulties and starts of all lanes to the device. The caller waits for the stream.
seed_status Pool::prepare_starts() {
  std::vector<int32_t> indices;
  for (size_t i = 0; i < modes.size(); ++i) {
    const std::pair<int32_t, int32_t> key{modes[i], difficulties[i]};
    auto found = std::find(starts.keys.begin(), starts.keys.end(), key);
    if (found == starts.keys.end()) {
      SEED_CHECK(add_start(key.first, key.second));
      found = starts.keys.end() - 1;
    }
    indices.push_back(int32_t(found - starts.keys.begin()));
  }
  SEED_CUDA(cudaStreamSynchronize(stream));
  if (start_lanes.bytes() != starts.lanes.size() * sizeof(Lane)) {
    SEED_CHECK(start_lanes.assign(starts.lanes, stream));
    SEED_CHECK(start_buffers.assign(starts.buffers, stream));
    SEED_CHECK(start_reusable.assign(starts.reusable, stream));
    view.starts = start_lanes.data();
    view.start_buffers = start_buffers.data();
    view.start_reusable = start_reusable.data();
    SEED_CHECK(device_view.copy_from(&view, stream));
  }
  SEED_CHECK(lane_modes.copy_from(modes.data(), stream));
  SEED_CHECK(lane_difficulties.copy_from(difficulties.data(), stream));
  SEED_CHECK(start_of_lane.copy_from(indices.data(), stream));
  SEED_CUDA(cudaStreamSynchronize(stream));
  return SEED_OK;
}

// ---- Launches ----------------------------------------------------------------------------------------------------

seed_status Pool::reset_lanes(const ResetTask& task) const {
  SEED_CUDA(launch_reset_lanes(device_view.data(), num_envs(), task, stream));
  return SEED_OK;
}

// Draws what lanes announced into their rings.
seed_status Pool::push_pictures() const {
  const int64_t count = num_envs();
  SEED_LAUNCH(show_pictures, blocks_of(count * view.picture_bytes, kPixelThreads), kPixelThreads, stream,
              device_view.data());
  const int64_t num_pixels = int64_t{view.plan.height} * view.plan.width;
  SEED_LAUNCH(resize_pictures, blocks_of(count * num_pixels, kPixelThreads), kPixelThreads, stream, device_view.data());
  SEED_CUDA(cudaGetLastError());
  return SEED_OK;
}

seed_status Pool::write_stacks_to(uint8_t* observations, bool only_ended) const {
  if (observations == nullptr) return SEED_OK;
  const int64_t bytes = int64_t{num_envs()} * view.stack_num * view.shown_bytes;
  if (view.shown_bytes % 4 == 0 && reinterpret_cast<uintptr_t>(observations) % 4 == 0) {
    SEED_LAUNCH(write_stacks<uint32_t>, blocks_of(bytes / 4, kPixelThreads), kPixelThreads, stream, device_view.data(),
                observations, only_ended);
  } else {
    SEED_LAUNCH(write_stacks<uint8_t>, blocks_of(bytes, kPixelThreads), kPixelThreads, stream, device_view.data(),
                observations, only_ended);
  }
  SEED_CUDA(cudaGetLastError());
  return SEED_OK;
}

seed_status Pool::write_outputs(const seed_pool_outputs& outputs) const {
  SEED_CHECK(write_stacks_to(outputs.observations, false));
  if (outputs.num_ended != nullptr) SEED_CUDA(cudaMemsetAsync(outputs.num_ended, 0, sizeof *outputs.num_ended, stream));
  SEED_LAUNCH(write_results, blocks_of(num_envs(), kPixelThreads), kPixelThreads, stream, device_view.data(), outputs);
  SEED_CUDA(cudaGetLastError());
  return SEED_OK;
}

// Waits for the stream and returns what the kernels found wrong, once.
seed_status Pool::synchronize() {
  FaultReport found{};
  SEED_CUDA(cudaMemcpyAsync(&found, report.data(), sizeof found, cudaMemcpyDeviceToHost, stream));
  SEED_CUDA(cudaStreamSynchronize(stream));
  if (found.fault == 0) return SEED_OK;
  SEED_CHECK(report.clear(stream));
  switch (static_cast<LaneFault>(found.fault)) {
    case LaneFault::kBadAction:
      return fail(SEED_INVALID_ARGUMENT, "an action of lane %d was %lld, it must be 0 to %d; it was played as NOOP",
                  found.lane, static_cast<long long>(found.value), view.num_actions - 1);
    case LaneFault::kEndedLane:
      return fail(SEED_BAD_STATE, "the episode of lane %d had ended: reset the lane before you step it", found.lane);
    default:
      return fail(SEED_BAD_STATE, "lane %d: the cartridge did not reach mode %lld of %s", found.lane,
                  static_cast<long long>(found.value), kGameNames[game_index]);
  }
}

// ---- Snapshots ---------------------------------------------------------------------------------------------------

// Raised whenever Lane, LaneResult or anything in them changes its meaning.
constexpr uint32_t kDeviceLaneVersion = 1;
constexpr char kDeviceLaneMagic[8] = {'S', 'E', 'E', 'D', 'C', 'U', 'D', 'A'};

LaneHeader device_lane_header(const Pool& pool) {
  LaneHeader header{};
  std::memcpy(header.magic, kDeviceLaneMagic, sizeof header.magic);
  header.version = kDeviceLaneVersion;
  header.layout_bytes = uint32_t(sizeof(Lane) + sizeof(LaneResult));
  std::strncpy(header.game, kGameNames[pool.game_index], sizeof header.game - 1);
  header.img_height = pool.options.img_height;
  header.img_width = pool.options.img_width;
  header.num_channels = pool.view.num_channels;
  header.stack_num = pool.options.stack_num;
  header.num_planes = pool.options.stack_num;
  header.num_picture_rows = int32_t(pool.picture_bytes() / kScreenWidth);
  header.size_bytes = sizeof header + header.layout_bytes + size_t(2 + pool.view.num_channels) * pool.picture_bytes() +
                      size_t(pool.options.stack_num) * size_t(pool.view.shown_bytes);
  return header;
}

// Calls copy(the lane's part of an array on the device, bytes) for every part of a snapshot, in order.
template <class Copy>
seed_status for_each_device_part(const Pool& pool, int32_t lane, Copy&& copy) {
  const size_t index = size_t(lane), picture_bytes = pool.picture_bytes();
  const size_t shown_bytes = size_t(pool.view.num_channels) * picture_bytes;
  const size_t planes_bytes = size_t(pool.options.stack_num) * size_t(pool.view.shown_bytes);
  SEED_CUDA(copy(pool.lanes.data() + index, sizeof(Lane)));
  SEED_CUDA(copy(pool.results.data() + index, sizeof(LaneResult)));
  SEED_CUDA(copy(pool.buffers.data() + index * 2 * picture_bytes, 2 * picture_bytes));
  SEED_CUDA(copy(pool.shown.data() + index * shown_bytes, shown_bytes));
  SEED_CUDA(copy(pool.planes.data() + index * planes_bytes, planes_bytes));
  SEED_CUDA(cudaStreamSynchronize(pool.stream));
  return SEED_OK;
}

seed_status check_snapshot_call(const seed::Pool* pool, int32_t lane, const void* bytes) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_range("lane", lane, 0, pool->num_envs() - 1));
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  return SEED_OK;
}

}  // namespace
}  // namespace seed

struct seed_pool : seed::Pool {};

using namespace seed;

extern "C" {

seed_status seed_pool_default_options(seed_pool_options* options) {
  SEED_CHECK(check_pointer(options, "options"));
  *options = default_pool_options();
  return SEED_OK;
}

seed_status seed_pool_create(int32_t game, const uint8_t* rom, int64_t rom_size, const seed_pool_options* options,
                             const int32_t* modes, const int32_t* difficulties, seed_pool** pool) {
  SEED_CHECK(check_new_pool(game, rom, rom_size, options, modes, difficulties, pool));
  if (options->batch_size != 0 && options->batch_size != options->num_envs)
    return fail(SEED_INVALID_ARGUMENT,
                "batch_size is %d: on a CUDA device it must be num_envs (%d), all lanes step together",
                options->batch_size, options->num_envs);
  try {
    std::unique_ptr<seed_pool> created(new seed_pool{});
    created->game_index = game;
    created->options = *options;
    created->rom_bytes.assign(rom, rom + rom_size);
    Rom prepared{};
    SEED_CHECK(prepare_rom(game, created->rom_bytes, prepared));
    created->device = options->device;
    const DeviceScope scope(created->device);
    SEED_CUDA(cudaGetLastError());  // of a device that does not exist
    SEED_CHECK(created->build(prepared, modes, difficulties));
    SEED_CUDA(cudaStreamSynchronize(created->stream));
    *pool = created.release();
    return SEED_OK;
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory for %d environments", options->num_envs);
  }
}

seed_status seed_pool_destroy(seed_pool* pool) {
  if (pool == nullptr) return SEED_OK;
  const DeviceScope scope(pool->device);
  cudaStreamSynchronize(pool->stream);
  delete pool;
  return SEED_OK;
}

seed_status seed_pool_set_stream(seed_pool* pool, void* stream) {
  SEED_CHECK(check_pointer(pool, "pool"));
  pool->stream = static_cast<cudaStream_t>(stream);
  return SEED_OK;
}

seed_status seed_pool_synchronize(seed_pool* pool) {
  SEED_CHECK(check_pointer(pool, "pool"));
  const DeviceScope scope(pool->device);
  return pool->synchronize();
}

seed_status seed_pool_actions(const seed_pool* pool, int32_t* num_actions, int32_t* actions) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(num_actions, "num_actions"));
  *num_actions = int32_t(pool->action_numbers.size());
  if (actions != nullptr) std::copy(pool->action_numbers.begin(), pool->action_numbers.end(), actions);
  return SEED_OK;
}

// The device learns of them at the next reset, or at once where lanes reset themselves.
seed_status seed_pool_set_modes(seed_pool* pool, const uint8_t* mask, const int32_t* modes,
                                const int32_t* difficulties) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_modes(pool->game_index, pool->num_envs(), mask, modes, difficulties));
  const DeviceScope scope(pool->device);
  replace_values(mask, modes, pool->modes);
  replace_values(mask, difficulties, pool->difficulties);
  return pool->prepare_starts();
}

seed_status seed_pool_reset(seed_pool* pool, const uint8_t* mask, const int32_t* seeds, const int32_t* env_ids,
                            const seed_pool_outputs* outputs) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(outputs, "outputs"));
  const int32_t count = pool->num_envs();
  bool all_seeded = true;
  for (int32_t i = 0; i < count; ++i) {
    if (mask != nullptr && mask[i] == 0) continue;
    all_seeded = all_seeded && seeds != nullptr && seeds[i] != SEED_NO_SEED;
    if (seeds != nullptr && seeds[i] < SEED_NO_SEED)
      return fail(SEED_INVALID_ARGUMENT, "the seed of lane %d is %d, it must be at least 0", i, seeds[i]);
  }
  if (!pool->has_reset && (mask != nullptr || !all_seeded))
    return fail(SEED_BAD_STATE, "the first reset must start every lane with a seed");
  const DeviceScope scope(pool->device);
  try {
    std::vector<uint8_t> host_mask(size_t(count), 1);
    std::vector<int32_t> host_seeds(size_t(count), SEED_NO_SEED), host_ids(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
      if (mask != nullptr) host_mask[size_t(i)] = mask[i] != 0;
      if (seeds != nullptr) host_seeds[size_t(i)] = seeds[i];
      host_ids[size_t(i)] = env_ids != nullptr ? env_ids[i] : pool->options.first_env_id + i;
    }
    SEED_CHECK(pool->prepare_starts());
    SEED_CHECK(pool->mask.copy_from(host_mask.data(), pool->stream));
    SEED_CHECK(pool->seeds.copy_from(host_seeds.data(), pool->stream));
    SEED_CHECK(pool->env_ids.copy_from(host_ids.data(), pool->stream));
    SEED_CHECK(pool->reset_lanes({pool->mask.data(), pool->seeds.data(), pool->env_ids.data(), false}));
    SEED_CHECK(pool->push_pictures());
    SEED_CHECK(pool->write_outputs(*outputs));
    SEED_CHECK(pool->synchronize());
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory to reset %d lanes", count);
  }
  pool->has_reset = true;
  return SEED_OK;
}

seed_status seed_pool_step(seed_pool* pool, const int64_t* actions, const float* strengths,
                           const seed_pool_outputs* outputs) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_pointer(outputs, "outputs"));
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  const DeviceScope scope(pool->device);
  SEED_CUDA(launch_step(pool->device_view.data(), pool->num_envs(), pool->options.frameskip, actions, strengths,
                        pool->stream));
  if (pool->options.autoreset == SEED_AUTORESET_NEXT_STEP)
    SEED_CHECK(pool->reset_lanes({nullptr, nullptr, nullptr, false}));
  SEED_CHECK(pool->push_pictures());
  if (pool->options.autoreset == SEED_AUTORESET_SAME_STEP) {
    SEED_CHECK(pool->write_stacks_to(outputs->final_observations, true));
    SEED_CHECK(pool->reset_lanes({nullptr, nullptr, nullptr, true}));
    SEED_CHECK(pool->push_pictures());
  }
  return pool->write_outputs(*outputs);
}

seed_status seed_pool_send(seed_pool* pool, const int64_t*, const float*) {
  SEED_CHECK(check_pointer(pool, "pool"));
  return fail(SEED_BAD_STATE, "a CUDA pool has no send and recv: step returns before the device has finished");
}

seed_status seed_pool_recv(seed_pool* pool, const seed_pool_outputs*) { return seed_pool_send(pool, nullptr, nullptr); }

seed_status seed_pool_observe(seed_pool* pool, const seed_pool_outputs* outputs) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(outputs, "outputs"));
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  const DeviceScope scope(pool->device);
  return pool->write_outputs(*outputs);
}

seed_status seed_pool_lane_capacity(const seed_pool* pool, int64_t* capacity) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(capacity, "capacity"));
  *capacity = int64_t(device_lane_header(*pool).size_bytes);
  return SEED_OK;
}

seed_status seed_pool_save_lane(seed_pool* pool, int32_t lane, uint8_t* bytes, int64_t capacity, int64_t* size) {
  SEED_CHECK(check_snapshot_call(pool, lane, bytes));
  SEED_CHECK(check_pointer(size, "size"));
  LaneHeader header = device_lane_header(*pool);
  if (capacity < int64_t(header.size_bytes))
    return fail(SEED_INVALID_ARGUMENT, "the buffer has %lld bytes, the snapshot %lld", static_cast<long long>(capacity),
                static_cast<long long>(header.size_bytes));
  const DeviceScope scope(pool->device);
  uint8_t* out = bytes + sizeof header;
  SEED_CHECK(for_each_device_part(*pool, lane, [&](const void* part, size_t count) {
    uint8_t* const to = out;
    out += count;
    return cudaMemcpyAsync(to, part, count, cudaMemcpyDeviceToHost, pool->stream);
  }));
  header.checksum = hash_bytes(bytes + sizeof header, header.size_bytes - sizeof header);
  std::memcpy(bytes, &header, sizeof header);
  *size = int64_t(header.size_bytes);
  return SEED_OK;
}

seed_status seed_pool_restore_lane(seed_pool* pool, int32_t lane, const uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_snapshot_call(pool, lane, bytes));
  LaneHeader header;
  SEED_CHECK(read_lane_header(bytes, size, kDeviceLaneMagic, header));
  SEED_CHECK(check_lane_header(header, device_lane_header(*pool), bytes, size));
  const DeviceScope scope(pool->device);
  const uint8_t* in = bytes + sizeof header;
  SEED_CHECK(for_each_device_part(*pool, lane, [&](void* part, size_t count) {
    const uint8_t* const from = in;
    in += count;
    return cudaMemcpyAsync(part, from, count, cudaMemcpyHostToDevice, pool->stream);
  }));
  Lane restored;
  std::memcpy(&restored, bytes + sizeof header, sizeof restored);
  pool->modes[size_t(lane)] = restored.atari.mode;
  pool->difficulties[size_t(lane)] = restored.atari.difficulty;
  return pool->prepare_starts();
}

seed_status seed_pool_ram(const seed_pool* pool, uint8_t* ram) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(ram, "ram"));
  if (!pool->has_reset) return fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
  const DeviceScope scope(pool->device);
  SEED_LAUNCH(write_ram, blocks_of(int64_t{pool->num_envs()} * 128, kPixelThreads), kPixelThreads, pool->stream,
              pool->device_view.data(), ram);
  SEED_CUDA(cudaGetLastError());
  return SEED_OK;
}

seed_status seed_pool_memory(const seed_pool* pool, int64_t* per_lane, int64_t* shared) {
  SEED_CHECK(check_pointer(pool, "pool"));
  const size_t lanes = pool->lanes.bytes() + pool->results.bytes() + pool->buffers.bytes() + pool->firsts.bytes() +
                       pool->shown.bytes() + pool->planes.bytes() + 5 * pool->seeds.bytes() + pool->mask.bytes();
  if (per_lane != nullptr) *per_lane = int64_t(lanes) / pool->num_envs();
  if (shared != nullptr)
    *shared =
        int64_t(pool->device_view.bytes() + pool->rom.bytes() + pool->rule_code.bytes() + pool->start_lanes.bytes() +
                pool->start_buffers.bytes() + pool->start_reusable.bytes() + pool->column_taps.bytes() +
                pool->column_first.bytes() + pool->row_taps.bytes() + pool->row_first.bytes() + pool->report.bytes());
  return SEED_OK;
}
}
