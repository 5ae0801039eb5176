/* What the operating system counts of this process, with all its threads. Of children that it waited
 * for it has the bytes and calls only. */
#ifndef METER_H
#define METER_H

#include <stdint.h>

/* Where the kernel counts the syncs of files, or NULL; and file descriptors, -1 where the machine has
 * no such counter, or keeps it from us. */
struct meter {
    const volatile uint64_t *syncs;
    int32_t io, device, instructions;
};

/* Since the process began, but syncs and instructions since meter_open, and the bytes of the device
 * since the machine started. What cannot be counted is 0. */
struct meter_counts {
    uint64_t user_ns, system_ns;
    uint64_t read_bytes, write_bytes; /* of the storage layer, see proc_pid_io(5) */
    uint64_t rchar, wchar;            /* bytes of read and write calls */
    uint64_t read_calls, write_calls;
    uint64_t minor_faults, major_faults;
    uint64_t syncs, instructions;
    uint64_t device_read_bytes, device_write_bytes;
};

/* What the process did until it was quiet: the nanoseconds from the call to its last activity, and
 * the nanoseconds of processor time and the bytes written in them. `settled` is 0 if the limit came
 * first. The bytes are the device's if one is watched, else those of the storage layer. */
struct meter_debt {
    uint64_t settled, ns, cpu_ns, bytes;
};

/* Opens the counters, until the process ends. `device_stat` is the file "stat" of a device in
 * /sys/block, or NULL. Threads that exist already execute their instructions uncounted. */
void meter_open(struct meter *meter, const char *device_stat);

/* A program of the kernel that counts how often this process passes the tracepoints to which it is
 * attached. *count is where the kernel keeps the number: a page, mapped until the process ends.
 * Returns the program's file descriptor, or -1. Needs Linux 5.8, and root or CAP_BPF and
 * CAP_PERFMON. */
int meter_program(const volatile uint64_t **count);

/* Attaches a program, until the file descriptor that is returned is closed; -1 where the kernel has
 * no such tracepoint. */
int meter_attach(int program, const char *tracepoint);

/* Only one thread may call it. Its own read calls are left out of the counts. */
void meter_read(const struct meter *meter, struct meter_counts *counts);

/* Waits until the threads of the process other than this one have used less than 1% of a processor,
 * and nothing was written, for `quiet_ns`; or less than 5% for ten times as long, since some engines
 * poll for ever; or until `limit_ns` have passed. */
void meter_settle(const struct meter *meter, uint64_t quiet_ns, uint64_t limit_ns,
                  struct meter_debt *debt);

#endif
