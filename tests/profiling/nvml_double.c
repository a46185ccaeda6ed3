/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for libnvidia-ml.so.1 with made-up devices, for tests without a GPU.
 *
 *   cc -shared -fPIC -o libnvidia-ml.so.1 nvml_double.c      and LD_LIBRARY_PATH=<its folder>
 *
 * The environment variable NVML_DOUBLE chooses the scenario:
 *   one              one H100 that supports everything (also the default)
 *   no_driver        the library is there, the driver is not loaded
 *   mismatch         library and driver versions differ
 *   no_gpu           a driver without devices
 *   no_utilization   utilization, power, energy, NVLink, ECC and GPM are not supported (a vGPU guest)
 *   lost             two GPUs; the second falls off the bus at its third reading, with Xid 79
 *   mig              an H100 in MIG mode with two instances
 *   groups           eight GPUs, four links up in each: 0-3 are connected among themselves, and 4-7
 *   nvswitch         eight GPUs, all 18 links to NVSwitches
 *   mixed            an A100 and an H100
 * Compiled with -DOLD_DRIVER it lacks the functions that came with driver 535 and the PCIe byte counters.
 *
 * Counters grow with the clock: energy by 300 W, PCIe by 1 GB/s sent and 2 GB/s received, NVLink by 4 and 8 GiB/s.
 * Constants and struct layouts are those of NVML's public interface.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9,
  TIMEOUT = 10, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18
};

typedef struct Device {
  unsigned index;
  struct Device* parent; /* NULL: a physical GPU */
  unsigned instance;
  unsigned readings;
  int lost;
} Device;

static Device gpus[8];
static Device instances[2];
static int initialized, xid_pending;

static int scenario(const char* name) {
  const char* chosen = getenv("NVML_DOUBLE");
  return strcmp(chosen ? chosen : "one", name) == 0;
}

static unsigned num_gpus(void) {
  if (scenario("no_gpu")) return 0;
  if (scenario("groups") || scenario("nvswitch")) return 8;
  return scenario("lost") || scenario("mixed") ? 2 : 1;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Every reading passes here: a lost device answers nothing else. */
static int usable(Device* device) {
  if (!initialized) return UNINITIALIZED;
  return device->lost ? GPU_IS_LOST : SUCCESS;
}

#define REQUIRE(device)                          \
  do {                                           \
    int status = usable(device);                 \
    if (status != SUCCESS) return status;        \
  } while (0)
#define PHYSICAL_ONLY(device) \
  if ((device)->parent != NULL) return NOT_SUPPORTED

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (scenario("no_driver")) return DRIVER_NOT_LOADED;
  if (scenario("mismatch")) return LIB_RM_VERSION_MISMATCH;
  for (unsigned i = 0; i < 8; ++i) gpus[i] = (Device){.index = i};
  for (unsigned i = 0; i < 2; ++i) instances[i] = (Device){.index = 0, .parent = &gpus[0], .instance = i + 1};
  initialized = 1;
  return SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) {
  initialized = 0;
  return SUCCESS;
}
const char* nvmlErrorString(int status) { return status == GPU_IS_LOST ? "GPU is lost" : "error"; }

int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  snprintf(text, size, "%s", "550.54.15");
  return SUCCESS;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12040;
  return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = num_gpus();
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  if (index >= num_gpus()) return INVALID_ARGUMENT;
  *device = &gpus[index];
  return SUCCESS;
}
int nvmlDeviceGetUUID(Device* device, char* text, unsigned size) {
  if (device->parent)
    snprintf(text, size, "MIG-%08x-0000-4000-8000-%012x", 0xa0u + device->instance, device->instance);
  else
    snprintf(text, size, "GPU-%08x-0000-4000-8000-%012x", 0x10u + device->index, device->index);
  return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, Device** device) {
  char text[96];
  for (unsigned i = 0; i < num_gpus(); ++i) {
    nvmlDeviceGetUUID(&gpus[i], text, sizeof text);
    if (strcmp(text, uuid) == 0) {
      *device = &gpus[i];
      return SUCCESS;
    }
  }
  return NOT_FOUND;
}
int nvmlDeviceGetName(Device* device, char* text, unsigned size) {
  const char* name = scenario("mixed") && device->index == 0 ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3";
  snprintf(text, size, "%s%s", name, device->parent ? " MIG 3g.40gb" : "");
  return SUCCESS;
}
int nvmlDeviceGetIndex(Device* device, unsigned* index) {
  *index = device->index;
  return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(Device* device, int* major, int* minor) {
  REQUIRE(device);
  *major = scenario("mixed") && device->index == 0 ? 8 : 9;
  *minor = 0;
  return SUCCESS;
}

/* ---- MIG */
int nvmlDeviceGetMigMode(Device* device, unsigned* current, unsigned* pending) {
  if (device->parent || scenario("no_utilization")) return NOT_SUPPORTED;
  *current = *pending = (unsigned)scenario("mig");
  return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(Device* device, unsigned* count) {
  (void)device;
  *count = 7;
  return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device* device, unsigned slot, Device** instance) {
  (void)device;
  if (!scenario("mig") || slot % 2 || slot / 2 >= 2) return NOT_FOUND; /* slots 0 and 2 are taken */
  *instance = &instances[slot / 2];
  return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(Device* device, unsigned* id) {
  *id = device->instance;
  return SUCCESS;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device* device, Device** parent) {
  *parent = device->parent;
  return SUCCESS;
}
int nvmlDeviceIsMigDeviceHandle(Device* device, unsigned* is_instance) {
  *is_instance = device->parent != NULL;
  return SUCCESS;
}

/* ---- readings */
typedef struct { unsigned gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(Device* device, Utilization* rates) {
  if (scenario("lost") && device->index == 1 && ++device->readings == 3) device->lost = xid_pending = 1;
  REQUIRE(device);
  if (scenario("no_utilization") || scenario("mig")) return NOT_SUPPORTED;
  *rates = (Utilization){10 * (device->index + 1), 5 * (device->index + 1)};
  return SUCCESS;
}
typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) {
  REQUIRE(device);
  const unsigned long long gib = 1ull << 30;
  memory->total = (device->parent ? 40 : 80) * gib;
  memory->used = (device->parent ? device->instance : device->index + 1) * gib;
  memory->free = memory->total - memory->used;
  return SUCCESS;
}
int nvmlDeviceGetClockInfo(Device* device, int type, unsigned* mhz) {
  REQUIRE(device);
  *mhz = type == 1 ? 1980 : 2619; /* NVML_CLOCK_SM, NVML_CLOCK_MEM */
  return SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device* device, unsigned long long* reasons) {
  REQUIRE(device);
  *reasons = device->index == 0 ? 0x44 : 0; /* power cap and hardware thermal slowdown */
  return SUCCESS;
}
#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(Device* device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}
#endif
int nvmlDeviceGetPowerUsage(Device* device, unsigned* milliwatts) {
  REQUIRE(device);
  PHYSICAL_ONLY(device);
  if (scenario("no_utilization")) return NOT_SUPPORTED;
  *milliwatts = 300500 + 1000 * device->index;
  return SUCCESS;
}
int nvmlDeviceGetTotalEnergyConsumption(Device* device, unsigned long long* millijoules) {
  REQUIRE(device);
  PHYSICAL_ONLY(device);
  if (scenario("no_utilization")) return NOT_SUPPORTED;
  *millijoules = (unsigned long long)(300e3 * seconds());
  return SUCCESS;
}
int nvmlDeviceGetTemperature(Device* device, int sensor, unsigned* celsius) {
  (void)sensor;
  REQUIRE(device);
  PHYSICAL_ONLY(device);
  *celsius = 40 + device->index;
  return SUCCESS;
}
int nvmlDeviceGetTemperatureV(Device* device, void* request) {
  struct { unsigned version; int sensor, celsius; }* value = request;
  unsigned celsius = 0;
  int status = nvmlDeviceGetTemperature(device, value->sensor, &celsius);
  value->celsius = (int)celsius;
  return status;
}
int nvmlDeviceGetPcieThroughput(Device* device, int counter, unsigned* kib_per_s) {
  REQUIRE(device);
  PHYSICAL_ONLY(device);
  *kib_per_s = counter == 0 ? 1000 : 2000;
  return SUCCESS;
}
int nvmlDeviceGetTotalEccErrors(Device* device, int kind, int counter, unsigned long long* count) {
  (void)counter;
  REQUIRE(device);
  PHYSICAL_ONLY(device);
  if (scenario("no_utilization")) return NOT_SUPPORTED;
  *count = kind == 0 ? 3 : 0; /* corrected, uncorrected */
  return SUCCESS;
}

typedef struct {
  uint32_t field, scope;
  int64_t timestamp, latency_us;
  int type, status;
  union { unsigned long long ull; double real; } value;
} FieldValue;
int nvmlDeviceGetFieldValues(Device* device, int count, FieldValue* values) {
  REQUIRE(device);
  const double pcie = 1e9 * seconds(), nvlink_kib = 4.0 * (1 << 20) * seconds();
  for (int i = 0; i < count; ++i) {
    values[i].status = SUCCESS;
    switch (values[i].field) {
#ifndef OLD_DRIVER
      case 197: values[i].value.ull = (unsigned long long)pcie; break;
      case 198: values[i].value.ull = (unsigned long long)(2 * pcie); break;
#endif
      case 138: values[i].value.ull = (unsigned long long)nvlink_kib; break;
      case 139: values[i].value.ull = (unsigned long long)(2 * nvlink_kib); break;
      default: values[i].status = NOT_SUPPORTED;
    }
    if (device->parent || scenario("no_utilization")) values[i].status = NOT_SUPPORTED;
  }
  return SUCCESS;
}

/* ---- GPM (values do not depend on the samples) */
typedef struct {
  unsigned metric;
  int status;
  double value;
  const char *short_name, *long_name, *unit;
} GpmMetric;
typedef struct {
  unsigned version, count;
  void *first, *second;
  GpmMetric metrics[];
} GpmMetrics;
typedef struct { unsigned version, supported; } GpmSupport;
int nvmlGpmQueryDeviceSupport(Device* device, GpmSupport* support) {
  support->supported = !scenario("no_utilization") && !(scenario("mixed") && device->index == 0);
  return SUCCESS;
}
int nvmlGpmSampleAlloc(void** sample) {
  *sample = malloc(8);
  return SUCCESS;
}
int nvmlGpmSampleFree(void* sample) {
  free(sample);
  return SUCCESS;
}
int nvmlGpmSampleGet(Device* device, void* sample) {
  REQUIRE(device);
  *(uint64_t*)sample = device->index;
  return SUCCESS;
}
int nvmlGpmMigSampleGet(Device* device, unsigned instance, void* sample) {
  REQUIRE(device);
  *(uint64_t*)sample = 100 + instance;
  return SUCCESS;
}
int nvmlGpmMetricsGet(GpmMetrics* request) {
  const uint64_t owner = *(uint64_t*)request->second;
  for (unsigned i = 0; i < request->count; ++i) {
    request->metrics[i].status = request->metrics[i].metric == 12 ? NOT_SUPPORTED : SUCCESS; /* no FP32 metric */
    request->metrics[i].value = (double)request->metrics[i].metric + (double)owner;
  }
  return SUCCESS;
}

/* ---- NVLink */
int nvmlDeviceGetNvLinkState(Device* device, unsigned link, unsigned* active) {
  const unsigned links = scenario("no_utilization") || device->parent ? 0 : 18;
  if (link >= links) return links ? INVALID_ARGUMENT : NOT_SUPPORTED;
  *active = scenario("nvswitch") || (scenario("groups") && link < 6) || scenario("one");
  return SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device* device, unsigned link, int* type) {
  (void)device, (void)link;
  *type = scenario("groups") ? 0 : 2; /* GPU, switch */
  return SUCCESS;
}
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
} PciInfo;
static int pci_info(unsigned bus, PciInfo* info) {
  memset(info, 0, sizeof *info);
  info->bus = bus;
  snprintf(info->text, sizeof info->text, "00000000:%02X:00.0", bus);
  snprintf(info->legacy, sizeof info->legacy, "0000:%02X:00.0", bus);
  return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* info) { return pci_info(0x10 + device->index, info); }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device* device, unsigned link, PciInfo* info) {
  if (!scenario("groups")) return pci_info(0xc0 + link / 6, info);
  /* Two links to each of the three others of the group of four. */
  const unsigned first = device->index / 4 * 4, place = device->index % 4;
  return pci_info(0x10 + first + (place + 1 + link / 2 % 3) % 4, info);
}

/* ---- Xid events */
typedef struct {
  Device* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
} EventData;
int nvmlEventSetCreate(void** set) {
  *set = malloc(8);
  return SUCCESS;
}
int nvmlEventSetFree(void* set) {
  free(set);
  return SUCCESS;
}
int nvmlDeviceRegisterEvents(Device* device, unsigned long long types, void* set) {
  (void)device, (void)types, (void)set;
  return scenario("no_utilization") ? NOT_SUPPORTED : SUCCESS;
}
int nvmlEventSetWait_v2(void* set, EventData* data, unsigned timeout_ms) {
  (void)set, (void)timeout_ms;
  if (!xid_pending) return TIMEOUT;
  xid_pending = 0;
  *data = (EventData){.device = &gpus[1], .type = 8, .data = 79};
  return SUCCESS;
}
