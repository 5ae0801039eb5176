/* The operating system's counters of this process, with all its threads. Of children that it has
 * waited for, only bytes and calls are included. */
#ifndef METER_H
#define METER_H

#include <stdint.h>

/* `syncs` is where the kernel counts the syncs of files, or NULL. The others are file descriptors,
 * -1 if the machine lacks the counter or denies access to it. */
struct meter {
    const volatile uint64_t *syncs;
    int32_t io, device, instructions;
};

/* Counts since the process began. Syncs and instructions are counted since meter_open, the bytes of
 * the device since the machine started. A count that is not available is 0. */
struct meter_counts {
    uint64_t user_ns, system_ns;
    uint64_t read_bytes, write_bytes; /* of the storage layer, see proc_pid_io(5) */
    uint64_t rchar, wchar;            /* bytes of read and write calls */
    uint64_t read_calls, write_calls;
    uint64_t minor_faults, major_faults;
    uint64_t syncs, instructions;
    uint64_t device_read_bytes, device_write_bytes;
};

/* What the process did until it was idle: `ns` from the call to its last activity, and the
 * processor time and bytes written in that period. `settled` is 0 if the limit came first. The
 * bytes are those of the device if one was opened, else those of the storage layer. */
struct meter_debt {
    uint64_t settled, ns, cpu_ns, bytes;
};

/* Opens the counters, which stay open until the process ends. `device_stat` is the file "stat" of a
 * device in /sys/block, or NULL. Instructions of threads that exist already are not counted.
 *  */
void meter_open(struct meter *meter, const char *device_stat);

/* Loads a program into the kernel that counts how often this process passes the tracepoints it is
 * attached to. *count points to the number, in a page that stays mapped until the process ends.
 * Returns the program's file descriptor, or -1. Needs Linux 5.8, and root or CAP_BPF and
 * CAP_PERFMON. */
int meter_program(const volatile uint64_t **count);

/* Attaches a program to a tracepoint until the returned file descriptor is closed. Returns -1 if
 * the kernel has no such tracepoint. */
int meter_attach(int program, const char *tracepoint);

/* Reads the counters. Only one thread may call it. Its own read calls are not counted. */
void meter_read(const struct meter *meter, struct meter_counts *counts);

/* Waits until, for `quiet_ns`, the other threads of the process have used less than 1% of a
 * processor and nothing was written. Less than 5% for ten times as long suffices, too, since some
 * engines never stop polling. Returns after `limit_ns` at the latest. */
void meter_settle(const struct meter *meter, uint64_t quiet_ns, uint64_t limit_ns,
                  struct meter_debt *debt);

#endif
