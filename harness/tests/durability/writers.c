/*
 * Programs of known truth: each makes N operations in the current folder, and its durability level
 * stands beside its name. Run as: writers NAME N
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int count;
static void (*chosen)(void);
static char record[100] = "record";

/* Each program looks before main whether it is the one that is asked for. */
#define PROGRAM(name, level)                                                                       \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void choose_##name(int argc, char **argv)                  \
    {                                                                                              \
        if (argc > 1 && strcmp(argv[1], #name) == 0)                                               \
            chosen = name;                                                                         \
    }                                                                                              \
    static void name(void)
#define EACH for (int i = 0; i < count; i++)
#define MUST(call) must((long)(call), #call)

static long must(long result, const char *call)
{
    if (result < 0) {
        perror(call);
        exit(1);
    }
    return result;
}

static int make(const char *path, int flags)
{
    return (int)MUST(open(path, O_CREAT | O_RDWR | flags, 0644));
}

static void put(int file)
{
    MUST(write(file, record, sizeof record));
}

static void sync_folder(const char *path)
{
    int folder = (int)MUST(open(path, O_RDONLY | O_DIRECTORY));
    MUST(fsync(folder));
    close(folder);
}

static const char *numbered(const char *stem, int i)
{
    static char text[4][64];
    static int turn;
    char *path = text[turn++ % 4];
    snprintf(path, sizeof *text, "%s%d", stem, i);
    return path;
}

static void *page_of(int file)
{
    MUST(ftruncate(file, 4096));
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        exit(1);
    return page;
}

static void in_thread(void *(*run)(void *), int *file)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, file) != 0)
        exit(1);
    pthread_join(thread, NULL);
}

static void in_child(void (*run)(int), int file)
{
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        run(file);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
}

static void flush(int file)
{
    MUST(fsync(file));
}

/* One file, synced in one way or the other */

PROGRAM(fsync_each, "sync")
{
    int file = make("data", 0);
    EACH put(file), flush(file);
}

PROGRAM(fdatasync_each, "sync")
{
    int file = make("data", 0);
    EACH put(file), MUST(fdatasync(file));
}

PROGRAM(nothing_synced, "process")
{
    int file = make("data", 0);
    EACH put(file);
}

PROGRAM(synced_at_end, "process")
{
    int file = make("data", 0);
    EACH put(file);
    flush(file);
}

PROGRAM(last_not_synced, "process")
{
    int file = make("data", 0);
    EACH put(file), flush(file);
    put(file);
}

PROGRAM(every_second_synced, "process")
{
    int file = make("data", 0);
    EACH
    {
        put(file);
        if (i % 2)
            flush(file);
    }
}

PROGRAM(synced_before_written, "process")
{
    int file = make("data", 0);
    EACH flush(file), put(file);
}

PROGRAM(synced_twice_every_second, "process")
{
    int file = make("data", 0);
    EACH
    {
        put(file);
        if (i % 2)
            flush(file), flush(file);
    }
}

PROGRAM(sync_fails, "process")
{
    int file = make("data", 0), pipes[2];
    MUST(pipe(pipes));
    EACH put(file), fsync(pipes[0]);
}

PROGRAM(writes_fail, "none")
{
    int file = (int)MUST(open("/dev/null", O_RDONLY));
    EACH if (write(file, record, 1) >= 0 || fsync(file) == 0) exit(1);
}

PROGRAM(never_written, "none")
{
    int file = make("data", 0);
    EACH flush(file);
}

PROGRAM(sync_all_each, "sync")
{
    int file = make("data", 0);
    EACH put(file), sync();
}

PROGRAM(syncfs_each, "sync")
{
    int file = make("data", 0);
    EACH put(file), MUST(syncfs(file));
}

PROGRAM(syncfs_of_another_disk, "process")
{
    int file = make("data", 0), other = (int)MUST(open("/proc", O_RDONLY));
    EACH put(file), MUST(syncfs(other));
}

PROGRAM(sync_file_range_each, "process")
{
    int file = make("data", 0);
    EACH put(file), sync_file_range(file, 0, 0, 7); /* with WAIT_AFTER */
}

/* Flags of the open file description, and of one write */

PROGRAM(dsync_each, "sync")
{
    int file = make("data", O_DSYNC);
    EACH put(file);
}

PROGRAM(osync_each, "sync")
{
    int file = make("data", O_SYNC);
    EACH put(file);
}

PROGRAM(dsync_by_writev, "sync")
{
    int file = make("data", O_DSYNC);
    struct iovec part = {record, 9};
    EACH MUST(writev(file, &part, 1)), MUST(pwritev(file, &part, 1, 0));
}

PROGRAM(dsync_of_one_write, "sync")
{
    int file = make("data", 0);
    struct iovec part = {record, 9};
    EACH MUST(pwritev2(file, &part, 1, 0, RWF_DSYNC));
}

PROGRAM(dsync_of_every_second_write, "process")
{
    int file = make("data", 0);
    struct iovec part = {record, 9};
    EACH MUST(pwritev2(file, &part, 1, 0, i % 2 ? RWF_DSYNC : 0));
}

PROGRAM(dsync_in_a_name, "process")
{
    int file = make("O_DSYNC", 0);
    EACH put(file);
}

PROGRAM(dsync_of_another_descriptor, "process")
{
    int synced = make("data", O_DSYNC), file = make("data", 0);
    put(synced);
    EACH put(file);
}

PROGRAM(dsync_of_another_path, "sync")
{
    int plain = make("data", 0), file = make("data", O_DSYNC);
    close(plain);
    EACH put(file);
}

PROGRAM(dsync_duplicated, "sync")
{
    int file = dup(dup(make("data", O_DSYNC)));
    EACH put(file);
}

PROGRAM(dsync_number_taken_over, "process")
{
    int file = make("data", O_DSYNC), other = make("other", 0);
    MUST(dup2(other, file));
    EACH put(file);
}

PROGRAM(dsync_set_too_late, "process")
{
    int file = make("data", 0);
    MUST(fcntl(file, F_SETFL, O_DSYNC));
    EACH put(file);
}

PROGRAM(dsync_beside_unsynced, "process")
{
    int synced = make("data", O_DSYNC), plain = make("data", 0);
    EACH put(plain), put(synced);
}

PROGRAM(dsync_closed_by_exec, "process")
{
    int file = make("data", O_DSYNC | O_CLOEXEC);
    char number[20], each[20];
    snprintf(number, sizeof number, "%d", file);
    snprintf(each, sizeof each, "%d", count);
    execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt $2 ]; do echo x >> plain; i=$((i+1)); done",
          "", number, each, NULL);
    exit(1);
}

/* Descriptors, names, processes and threads of one file */

PROGRAM(synced_by_duplicate, "sync")
{
    int file = make("data", 0), other = dup(file);
    EACH put(file), flush(other);
}

PROGRAM(synced_by_fcntl_duplicate, "sync")
{
    int file = make("data", 0), other = fcntl(file, F_DUPFD_CLOEXEC, 50);
    EACH put(file), flush(other);
}

PROGRAM(synced_by_another_open, "sync")
{
    int file = make("data", 0);
    EACH
    {
        put(file);
        int other = (int)MUST(open("data", O_RDONLY));
        flush(other);
        close(other);
    }
}

PROGRAM(synced_by_hard_link, "sync")
{
    int file = make("data", 0);
    MUST(link("data", "link"));
    int other = (int)MUST(open("link", O_RDONLY));
    EACH put(file), flush(other);
}

PROGRAM(synced_by_hard_link_of_before, "sync")
{
    int file = make("old", 0), other = (int)MUST(open("linked", O_RDONLY));
    EACH put(file), flush(other);
}

PROGRAM(synced_by_symbolic_link, "sync")
{
    int file = make("data", 0);
    MUST(symlink("data", "link"));
    int other = (int)MUST(open("link", O_RDONLY));
    EACH put(file), flush(other);
}

PROGRAM(synced_after_rename, "sync")
{
    int file = make("data", 0);
    MUST(rename("data", "moved"));
    int other = (int)MUST(open("moved", O_RDONLY));
    EACH put(file), flush(other);
}

PROGRAM(synced_what_took_its_name, "process")
{
    int file = make("data", 0);
    MUST(rename("data", "moved"));
    int other = make("data", 0);
    EACH put(file), flush(other);
}

PROGRAM(folder_renamed, "sync")
{
    MUST(mkdir("folder", 0755));
    int file = make("folder/data", 0);
    MUST(rename("folder", "moved"));
    int other = (int)MUST(open("moved/data", O_RDONLY));
    EACH put(file), flush(other);
}

PROGRAM(relative_to_a_folder, "sync")
{
    MUST(mkdir("folder", 0755));
    int folder = (int)MUST(open("folder", O_RDONLY | O_DIRECTORY));
    int file = (int)MUST(openat(folder, "data", O_CREAT | O_WRONLY, 0644));
    MUST(renameat(folder, "data", folder, "moved"));
    MUST(chdir("folder"));
    int other = (int)MUST(open("moved", O_RDONLY));
    EACH put(file), flush(other);
}

PROGRAM(opened_each_time, "sync")
{
    make("data", 0);
    EACH
    {
        int file = (int)MUST(open("data", O_WRONLY | O_APPEND | O_CREAT, 0644));
        put(file), flush(file);
        close(file);
    }
}

PROGRAM(closed_each_time, "process")
{
    EACH
    {
        int file = (int)MUST(open("data", O_WRONLY | O_APPEND | O_CREAT, 0644));
        put(file);
        close(file);
    }
}

PROGRAM(synced_by_child, "sync")
{
    int file = make("data", 0);
    EACH put(file), in_child(flush, file);
}

PROGRAM(written_by_children, "sync")
{
    int file = make("data", 0);
    EACH in_child(put, file), flush(file);
}

PROGRAM(closed_by_child, "sync")
{
    int file = make("data", O_DSYNC);
    if (MUST(fork()) == 0) {
        close(file);
        make("other", 0);
        _exit(0);
    }
    MUST(wait(NULL));
    EACH put(file);
}

static void *flush_in_thread(void *file)
{
    flush(*(int *)file);
    return NULL;
}

PROGRAM(synced_by_thread, "sync")
{
    int file = make("data", 0);
    EACH put(file), in_thread(flush_in_thread, &file);
}

static void *open_in_thread(void *file)
{
    *(int *)file = make("data", O_DSYNC);
    return NULL;
}

PROGRAM(opened_by_thread, "sync")
{
    int file;
    in_thread(open_in_thread, &file);
    EACH put(file);
}

static void *write_own(void *file)
{
    EACH put(*(int *)file), flush(*(int *)file);
    return NULL;
}

static void run_threads(int files[4])
{
    pthread_t threads[4];
    count /= 4;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, write_own, &files[i]) != 0)
            exit(1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

PROGRAM(threads_with_own_files, "sync")
{
    int files[4];
    for (int i = 0; i < 4; i++)
        files[i] = make(numbered("own", i), 0);
    run_threads(files);
}

PROGRAM(threads_with_one_file, "sync")
{
    int file = make("data", 0), files[] = {file, file, file, file};
    run_threads(files);
}

static void *write_own_unsynced(void *file)
{
    EACH put(*(int *)file);
    return NULL;
}

/* Each sync may be for an operation of either thread. */
PROGRAM(threads_of_which_one_syncs, "not known")
{
    pthread_t thread;
    int file = make("data", 0), other = make("other", 0);
    count /= 2;
    if (pthread_create(&thread, NULL, write_own_unsynced, &other) != 0)
        exit(1);
    write_own(&file);
    pthread_join(thread, NULL);
}

static pthread_barrier_t turn;

static void *write_beside(void *file)
{
    EACH
    {
        put(*(int *)file);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

static void write_and_log(int last)
{
    int data = make("data", 0), journal = make("journal", 0);
    pthread_t thread;
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&thread, NULL, write_beside, &data);
    EACH
    {
        pthread_barrier_wait(&turn);
        put(journal), flush(journal);
        pthread_barrier_wait(&turn);
    }
    pthread_join(thread, NULL);
    if (last)
        flush(data);
}

PROGRAM(written_by_another_thread, "process")
{
    write_and_log(0);
}

PROGRAM(written_by_another_thread_synced_at_end, "process")
{
    write_and_log(1);
}

static void *run_shell(void *file)
{
    (void)file;
    execl("/bin/sh", "sh", "-c",
          "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
          "echo x >> data; sync data; done",
          NULL);
    exit(1);
}

PROGRAM(program_run_by_thread, "sync")
{
    int file;
    in_thread(run_shell, &file);
}

PROGRAM(programs_spawned, "sync")
{
    char *arguments[] = {"sh", "-c", "echo x >> data; sync data", NULL};
    EACH
    {
        pid_t child;
        if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) != 0)
            exit(1);
        MUST(waitpid(child, NULL, 0));
    }
}

/* Several files */

PROGRAM(two_files_synced, "sync")
{
    int one = make("one", 0), two = make("two", 0);
    EACH put(one), put(two), flush(one), flush(two);
}

PROGRAM(log_synced_data_not, "process")
{
    int data = make("data", 0), journal = make("journal", 0);
    EACH put(data), put(journal), flush(journal);
}

PROGRAM(log_synced_data_at_end, "process")
{
    int data = make("data", 0), journal = make("journal", 0);
    EACH put(data), put(journal), flush(journal);
    flush(data);
}

PROGRAM(two_files_in_turn, "process")
{
    int one = make("one", 0), two = make("two", 0);
    EACH put(two), put(one), flush(one), put(one), flush(one);
}

PROGRAM(log_for_people_at_start_and_end, "sync")
{
    int data = make("data", 0), people = make("LOG", 0);
    put(people);
    EACH put(data), flush(data);
    put(people);
}

PROGRAM(log_for_people_now_and_then, "not known")
{
    int data = make("data", 0), people = make("LOG", 0);
    EACH
    {
        put(data), flush(data);
        if (i % 7 == 3)
            put(people);
    }
}

PROGRAM(log_for_people_each_time, "process")
{
    int data = make("data", 0), people = make("LOG", 0);
    EACH put(people), put(data), flush(data);
}

PROGRAM(half_in_another_file, "not known")
{
    int data = make("data", 0), other = make("other", 0);
    EACH
    {
        if (i % 2)
            put(other);
        put(data), flush(data);
    }
}

PROGRAM(others_synced_before, "process")
{
    int data = make("data", 0), other = make("other", 0);
    EACH put(other), flush(other);
    EACH put(data);
}

PROGRAM(others_synced_afterwards, "process")
{
    int data = make("data", 0), other = make("other", 0);
    EACH put(data);
    EACH put(other), flush(other);
}

PROGRAM(others_synced_then_data, "process")
{
    int data = make("data", 0), other = make("other", 0);
    EACH put(data);
    EACH put(other), flush(other);
    flush(data);
}

PROGRAM(folder_synced_last, "sync")
{
    int index = make("index", 0);
    EACH
    {
        int file = make(numbered("data", i), 0);
        put(file), flush(file), put(index), flush(index), sync_folder(".");
        close(file);
    }
}

PROGRAM(journal_then_data, "sync")
{
    int data = make("data", 0), journal = make("journal", 0);
    EACH put(journal), flush(journal), put(data), flush(data);
}

/* Buffers of the process */

PROGRAM(stdio_flushed_and_synced, "sync")
{
    FILE *file = fopen("data", "w");
    EACH fprintf(file, "%d\n", i), fflush(file), flush(fileno(file));
}

PROGRAM(stdio_synced_not_flushed, "none")
{
    FILE *file = fopen("data", "w");
    EACH fprintf(file, "%d\n", i), flush(fileno(file));
}

PROGRAM(stdio, "none")
{
    FILE *file = fopen("data", "w");
    EACH fprintf(file, "%d\n", i);
}

PROGRAM(stdio_not_flushed_beside_a_log, "not known")
{
    FILE *file = fopen("data", "w");
    int journal = make("journal", 0);
    EACH fprintf(file, "%d\n", i), flush(fileno(file)), put(journal), flush(journal);
}

/* Names */

PROGRAM(files_with_folder_synced, "sync")
{
    EACH
    {
        int file = make(numbered("data", i), 0);
        put(file), flush(file), sync_folder(".");
        close(file);
    }
}

PROGRAM(files_without_folder_synced, "process")
{
    EACH
    {
        int file = make(numbered("data", i), 0);
        put(file), flush(file);
        close(file);
    }
}

PROGRAM(files_not_synced, "process")
{
    EACH
    {
        int file = make(numbered("data", i), 0);
        put(file);
        close(file);
    }
}

PROGRAM(files_of_before_overwritten, "sync")
{
    EACH
    {
        int file = (int)MUST(open(numbered("before", i), O_CREAT | O_TRUNC | O_WRONLY, 0644));
        put(file), flush(file);
        close(file);
    }
}

PROGRAM(folder_of_another_synced, "process")
{
    MUST(mkdir("other", 0755));
    EACH
    {
        int file = make(numbered("data", i), 0);
        put(file), flush(file), sync_folder("other");
        close(file);
    }
}

static void replace(const char *path, int synced, int folder)
{
    int file = make("temporary", O_TRUNC);
    put(file);
    if (synced)
        flush(file);
    close(file);
    MUST(rename("temporary", path));
    if (folder)
        sync_folder(".");
}

PROGRAM(renames_synced, "sync")
{
    EACH replace("data", 1, 1);
}

PROGRAM(renames_without_folder_synced, "process")
{
    EACH replace("data", 1, 0);
}

PROGRAM(renames_without_file_synced, "process")
{
    EACH replace("data", 0, 1);
}

PROGRAM(unlinks_synced, "sync")
{
    EACH MUST(unlink(numbered("before", i))), sync_folder(".");
}

PROGRAM(unlinks, "process")
{
    EACH MUST(unlink(numbered("before", i)));
}

PROGRAM(rollback_journal, "process")
{
    int data = make("data", 0);
    EACH
    {
        int journal = make("journal", 0);
        put(journal), flush(journal), sync_folder(".");
        put(data), flush(data);
        close(journal);
        MUST(unlink("journal"));
    }
}

PROGRAM(rollback_journal_synced, "sync")
{
    int data = make("data", 0);
    EACH
    {
        int journal = make("journal", 0);
        put(journal), flush(journal), sync_folder(".");
        put(data), flush(data);
        close(journal);
        MUST(unlink("journal")), sync_folder(".");
    }
}

/* After a loss of power the lock may still be there. */
PROGRAM(lock_file_each_time, "process")
{
    int data = make("data", 0);
    EACH
    {
        close(make("lock", O_EXCL));
        put(data), flush(data);
        MUST(unlink("lock"));
    }
}

PROGRAM(links_synced, "sync")
{
    int data = make("data", 0);
    put(data), flush(data);
    EACH MUST(link("data", numbered("link", i))), sync_folder(".");
}

PROGRAM(folders, "process")
{
    EACH MUST(mkdir(numbered("folder", i), 0755));
}

PROGRAM(folders_synced, "sync")
{
    EACH MUST(mkdir(numbered("folder", i), 0755)), sync_folder(".");
}

PROGRAM(symbolic_links_synced, "sync")
{
    EACH MUST(symlink("there", numbered("link", i))), sync_folder(".");
}

static void link_nameless(int synced)
{
    int file = (int)MUST(open(".", O_TMPFILE | O_RDWR, 0644));
    static int number;
    char path[40];
    put(file);
    if (synced)
        flush(file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    MUST(linkat(AT_FDCWD, path, AT_FDCWD, numbered("data", number++), AT_SYMLINK_FOLLOW));
    sync_folder(".");
    close(file);
}

PROGRAM(nameless_linked, "sync")
{
    EACH link_nameless(1);
}

PROGRAM(nameless_linked_not_synced, "process")
{
    EACH link_nameless(0);
}

PROGRAM(removed_file, "none")
{
    int file = make("data", 0);
    MUST(unlink("data"));
    EACH put(file), flush(file);
}

/* Other ways to change a file */

PROGRAM(truncated_each, "process")
{
    int file = make("data", 0);
    EACH MUST(ftruncate(file, i + 1));
}

PROGRAM(truncated_after_sync, "process")
{
    int file = make("data", 0);
    EACH put(file), flush(file), MUST(ftruncate(file, 10));
}

PROGRAM(truncated_by_open, "process")
{
    EACH
    {
        int file = make("data", O_TRUNC);
        put(file), flush(file);
        close(file);
        close(make("data", O_TRUNC));
    }
}

PROGRAM(truncated_by_path, "process")
{
    int file = make("data", 0);
    EACH put(file), flush(file), MUST(truncate("data", 10));
}

PROGRAM(allocated_each, "process")
{
    int file = make("data", 0);
    EACH MUST(fallocate(file, 0, i * 4096, 4096));
}

PROGRAM(allocated_and_synced, "sync")
{
    int file = make("data", 0);
    EACH MUST(fallocate(file, 0, i * 4096, 4096)), flush(file);
}

static void copy_each(int synced)
{
    int from = make("from", 0), file = make("data", 0);
    put(from), flush(from);
    EACH
    {
        off_t start = 0;
        MUST(copy_file_range(from, &start, file, NULL, sizeof record, 0));
        if (synced)
            flush(file);
    }
}

PROGRAM(copied_in_the_kernel, "process")
{
    copy_each(0);
}

PROGRAM(copied_in_the_kernel_and_synced, "sync")
{
    copy_each(1);
}

PROGRAM(copied_at_once, "not known")
{
    int from = make("from", 0), file = make("data", 0);
    put(from);
    off_t start = 0;
    MUST(copy_file_range(from, &start, file, NULL, sizeof record, 0));
}

PROGRAM(sent_by_the_kernel, "process")
{
    int from = make("from", 0), file = make("data", 0);
    put(from), flush(from);
    EACH
    {
        off_t start = 0;
        MUST(sendfile(file, from, &start, sizeof record));
    }
}

PROGRAM(spliced, "process")
{
    int file = make("data", 0), pipes[2];
    MUST(pipe(pipes));
    EACH put(pipes[1]), MUST(splice(pipes[0], NULL, file, NULL, sizeof record, 0));
}

PROGRAM(spliced_and_synced, "sync")
{
    int file = make("data", 0), pipes[2];
    MUST(pipe(pipes));
    EACH put(pipes[1]), MUST(splice(pipes[0], NULL, file, NULL, sizeof record, 0)), flush(file);
}

/* What is not seen */

PROGRAM(mapped, "not known")
{
    char *page = page_of(make("data", 0));
    EACH page[i] = 1;
}

PROGRAM(mapped_and_synced, "not known")
{
    char *page = page_of(make("data", 0));
    EACH page[i] = 1, MUST(msync(page, 4096, MS_SYNC));
}

PROGRAM(mapped_beside_a_log, "not known")
{
    char *page = page_of(make("data", 0));
    int journal = make("journal", 0);
    EACH page[i] = 1, put(journal), flush(journal);
}

PROGRAM(map_made_writable, "not known")
{
    int file = make("data", 0), journal = make("journal", 0);
    MUST(ftruncate(file, 4096));
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    MUST(mprotect(page, 4096, PROT_READ | PROT_WRITE));
    EACH page[i] = 1, put(journal), flush(journal);
}

PROGRAM(map_of_its_own, "sync")
{
    int file = make("data", 0);
    MUST(ftruncate(file, 4096));
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    EACH page[i] = 1, put(file), flush(file);
}

PROGRAM(map_of_another_synced, "process")
{
    int data = make("data", 0);
    char *page = page_of(make("other", 0));
    EACH put(data), MUST(msync(page, 4096, MS_ASYNC));
}

PROGRAM(aio, "not known")
{
    aio_context_t context = 0;
    int file = make("data", 0);
    MUST(syscall(SYS_io_setup, 4, &context));
    EACH
    {
        struct iocb one = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                           .aio_fildes = (unsigned)file,
                           .aio_buf = (unsigned long)record,
                           .aio_nbytes = 9};
        struct iocb *list = &one;
        struct io_event event;
        MUST(syscall(SYS_io_submit, context, 1, &list));
        MUST(syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
        flush(file);
    }
}

PROGRAM(received, "not known")
{
    int pair[2], file = make("data", O_DSYNC);
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &file, sizeof file);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(sendmsg(pair[0], &message, 0));
    close(file);
    memset(room, 0, sizeof room);
    MUST(recvmsg(pair[1], &message, 0));
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    EACH put(file);
}

PROGRAM(killed, "not known")
{
    int file = make("data", 0);
    EACH put(file), flush(file);
    kill(getpid(), SIGKILL);
}

/* Standard streams */

PROGRAM(standard_output_of_ones_own, "process")
{
    MUST(dup2(make("data", 0), 1));
    EACH put(1);
}

PROGRAM(standard_error_closed_before, "process")
{
    close(2);
    int file = make("data", 0);
    EACH put(file);
}

PROGRAM(standard_output_synced, "sync")
{
    MUST(dup2(make("data", 0), 1));
    EACH put(1), flush(1);
}

PROGRAM(pipes, "none")
{
    int ends[2];
    MUST(pipe(ends));
    EACH put(ends[1]);
}

int main(int argc, char **argv)
{
    count = argc > 2 ? atoi(argv[2]) : 0;
    if (chosen == NULL) {
        fprintf(stderr, "writers NAME N\n");
        return 2;
    }
    chosen();
    return 0;
}
