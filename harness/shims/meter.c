#include "meter.h"
#include "clock.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 10, SECTOR = 512 }; /* looks while quiet; bytes of what a device counts */
enum { QUIET = 1, POLLING = 5 };   /* per cent of a processor */

static uint64_t own_calls, own_bytes; /* read by meter_read so far */

static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

/* The program, which adds 1 to the map's only value if it runs in this process. Reading a perf event
 * instead takes 12 us while another thread runs, since it interrupts that thread's processor. */
static int load(int map, const struct stat *namespace)
{
    enum { R0, R1, R2, R3, R4, R10 = 10, TGID = -4, INFO = -8 };
    uint64_t device = namespace->st_dev, inode = namespace->st_ino;
#define LOW(value) (int32_t)(uint32_t)(value)
    const struct bpf_insn code[] = {
        {BPF_LD | BPF_IMM | BPF_DW, R1, 0, 0, LOW(device)}, /* constants take two instructions */
        {0, 0, 0, 0, LOW(device >> 32)},
        {BPF_LD | BPF_IMM | BPF_DW, R2, 0, 0, LOW(inode)},
        {0, 0, 0, 0, LOW(inode >> 32)},
        {BPF_ALU64 | BPF_MOV | BPF_X, R3, R10, 0, 0},
        {BPF_ALU64 | BPF_ADD | BPF_K, R3, 0, 0, INFO},
        {BPF_ALU64 | BPF_MOV | BPF_K, R4, 0, 0, sizeof(struct bpf_pidns_info)},
        {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_ns_current_pid_tgid},
        {BPF_JMP | BPF_JNE | BPF_K, R0, 0, 6, 0}, /* another container's: to the end */
        {BPF_LDX | BPF_MEM | BPF_W, R1, R10, TGID, 0},
        {BPF_JMP | BPF_JNE | BPF_K, R1, 0, 4, getpid()}, /* another process: to the end */
        {BPF_LD | BPF_IMM | BPF_DW, R1, BPF_PSEUDO_MAP_VALUE, 0, map},
        {0, 0, 0, 0, 0},
        {BPF_ALU64 | BPF_MOV | BPF_K, R2, 0, 0, 1},
        {BPF_STX | BPF_ATOMIC | BPF_DW, R1, R2, 0, BPF_ADD},
        {BPF_ALU64 | BPF_MOV | BPF_K, R0, 0, 0, 0},
        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
    };
#undef LOW
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
                           .insns = (uintptr_t)code,
                           .insn_cnt = sizeof code / sizeof *code,
                           .license = (uintptr_t)"GPL"};
    return bpf(BPF_PROG_LOAD, &attr);
}

int meter_program(const volatile uint64_t **count)
{
    union bpf_attr create = {.map_type = BPF_MAP_TYPE_ARRAY,
                             .key_size = sizeof(uint32_t),
                             .value_size = sizeof **count,
                             .max_entries = 1,
                             .map_flags = BPF_F_MMAPABLE};
    struct stat namespace;
    int program = -1, map = bpf(BPF_MAP_CREATE, &create);
    if (map < 0)
        return -1;
    void *page = mmap(NULL, sizeof **count, PROT_READ, MAP_SHARED, map, 0);
    if (page != MAP_FAILED && stat("/proc/self/ns/pid", &namespace) == 0)
        program = load(map, &namespace);
    *count = page;
    close(map); /* the program keeps it */
    return program;
}

int meter_attach(int program, const char *tracepoint)
{
    union bpf_attr attr = {
        .raw_tracepoint = {.name = (uintptr_t)tracepoint, .prog_fd = (uint32_t)program}};
    return bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
}

static void count_syncs(struct meter *meter)
{
    static const char *const tracepoint[] = {"ext4_sync_file_enter", "xfs_file_fsync",
                                             "xfs_dir_fsync", "btrfs_sync_file"};
    const volatile uint64_t *count;
    int program = meter_program(&count);
    for (size_t i = 0; program >= 0 && i < sizeof tracepoint / sizeof *tracepoint; i++)
        if (meter_attach(program, tracepoint[i]) >= 0)
            meter->syncs = count;
}

void meter_open(struct meter *meter, const char *device_stat)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_HARDWARE,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .inherit = 1};
    *meter = (struct meter){
        .io = open("/proc/self/io", O_RDONLY | O_CLOEXEC),
        .device = device_stat == NULL ? -1 : open(device_stat, O_RDONLY | O_CLOEXEC),
        .instructions = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC),
    };
    count_syncs(meter);
}

static void count_own(ssize_t found)
{
    own_calls++;
    own_bytes += found > 0 ? (uint64_t)found : 0;
}

static uint64_t executed(int file)
{
    uint64_t count = 0;
    if (file < 0)
        return 0;
    ssize_t found = read(file, &count, sizeof count);
    count_own(found);
    return found == sizeof count ? count : 0;
}

/* The first `count` numbers in a file's text, 0 where it has fewer. */
static void numbers(int file, uint64_t *number, size_t count)
{
    char text[512];
    memset(number, 0, count * sizeof *number);
    if (file < 0)
        return;
    ssize_t size = pread(file, text, sizeof text, 0);
    count_own(size);
    bool inside = false;
    for (ssize_t at = 0; at < size && count > 0; at++) {
        bool digit = text[at] >= '0' && text[at] <= '9';
        if (digit)
            *number = *number * 10 + (uint64_t)(text[at] - '0');
        else if (inside)
            number++, count--;
        inside = digit;
    }
}

static uint64_t nanoseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

static uint64_t less(uint64_t all, uint64_t own)
{
    return all > own ? all - own : 0;
}

void meter_read(const struct meter *meter, struct meter_counts *counts)
{
    struct rusage usage = {0};
    uint64_t io[6], device[7], calls = own_calls, bytes = own_bytes;
    getrusage(RUSAGE_SELF, &usage); /* fails only for other arguments */
    numbers(meter->io, io, 6);
    numbers(meter->device, device, 7);
    *counts = (struct meter_counts){
        .user_ns = nanoseconds(usage.ru_utime),
        .system_ns = nanoseconds(usage.ru_stime),
        .read_bytes = io[4],
        .write_bytes = io[5],
        .rchar = less(io[0], bytes),
        .wchar = io[1],
        .read_calls = less(io[2], calls),
        .write_calls = io[3],
        .minor_faults = (uint64_t)usage.ru_minflt,
        .major_faults = (uint64_t)usage.ru_majflt,
        .syncs = meter->syncs == NULL ? 0 : *meter->syncs,
        .instructions = executed(meter->instructions),
        .device_read_bytes = device[2] * SECTOR,
        .device_write_bytes = device[6] * SECTOR,
    };
}

/* At a moment: the processor time of the other threads, and what was written so far. */
struct look {
    uint64_t ns, cpu_ns, written, bytes;
};

static struct look look(const struct meter *meter)
{
    struct meter_counts counts;
    struct timespec own;
    meter_read(meter, &counts);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    uint64_t own_ns = (uint64_t)own.tv_sec * 1000000000 + (uint64_t)own.tv_nsec;
    uint64_t device = counts.device_write_bytes;
    return (struct look){.ns = now(),
                         .cpu_ns = less(counts.user_ns + counts.system_ns, own_ns),
                         .written = counts.wchar + counts.write_bytes + device,
                         .bytes = meter->device < 0 ? counts.write_bytes : device};
}

/* Whether the process has other threads. */
static bool alone(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3; /* ".", ".." and one */
}

void meter_settle(const struct meter *meter, uint64_t quiet_ns, uint64_t limit_ns,
                  struct meter_debt *debt)
{
    struct look first = look(meter), ring[LOOKS] = {first}, last = first, calm = first;
    bool settled = meter->device < 0 && alone();
    const struct timespec pause = {(time_t)(quiet_ns / LOOKS / 1000000000),
                                   (long)(quiet_ns / LOOKS % 1000000000)};
    for (size_t i = 1; !settled && last.ns - first.ns < limit_ns; i++) {
        nanosleep(&pause, NULL); /* a signal makes this look an early one */
        struct look seen = look(meter), *before = &ring[i % LOOKS];
        struct look oldest = i < LOOKS ? first : *before;
        uint64_t share = less(seen.cpu_ns, oldest.cpu_ns) * 100 / (seen.ns - oldest.ns + 1);
        if (seen.written != oldest.written || share >= POLLING)
            calm = seen;
        if (seen.ns - calm.ns >= quiet_ns * LOOKS)
            oldest = calm;
        settled = seen.ns - oldest.ns >= quiet_ns && seen.written == oldest.written &&
                  (share < QUIET || oldest.ns == calm.ns);
        last = settled ? oldest : seen;
        *before = seen;
    }
    *debt = (struct meter_debt){settled, last.ns - first.ns, less(last.cpu_ns, first.cpu_ns),
                                last.bytes - first.bytes};
}
