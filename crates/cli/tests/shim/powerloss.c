/* A disk that loses what was not synced, for tests of power cuts.
 *
 * Preloaded into a process (LD_PRELOAD), it writes down each change that the process makes to files that lie directly
 * in one folder, before the change is made and with what is needed to take it back, and each sync. SIGKILL takes
 * nothing from that log. Whoever killed the process reads the log and takes back what no sync made durable: the folder
 * is then as a power cut would have left it.
 *
 *   POWERLOSS_FOLDER   the folder
 *   POWERLOSS_LOG      the log; appended to, so several processes may share it
 *   POWERLOSS_GRAVE    a folder on the same file system, where files that lose their name are kept
 *   POWERLOSS_KILL_AT  optional: the process kills itself before its so-manieth change or sync, from 0
 *
 * A sync of a file of the folder only goes into the log: the log is the disk here, and the kernel need not wait for its
 * own. `*-shm` is memory that SQLite shares through a file: it means nothing after a power cut and is left out.
 *
 * Calls go to the kernel directly. So no other version of a function has to be found, and nothing here calls itself.
 * A call that would change a file of the folder unseen ends the process: a test must not rest on half a log.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8 && sizeof(off_t) == 8, "offsets are passed to the kernel in one register");

#define EXPORT __attribute__((visibility("default")))

static char folder[PATH_MAX];
static size_t folder_length;
static char grave[PATH_MAX];
static int log_fd = -1;
static long kill_at = -1;
static atomic_long steps;
static atomic_long syncs;

/* What a record is about. The reader is `tests/it/power/disk.rs`. */
enum kind {
    WRITE = 'w',    /* file, offset, old size; old bytes, new bytes */
    RESIZE = 't',   /* file, new size, old size; old bytes behind the new size */
    NAME = 'n',     /* new file, old file (0 is none), the folder itself; name */
    RENAME = 'r',   /* file, file that had the new name (0 is none), the folder itself; old name, new name */
    SYNCING = 'b',  /* file, number of the sync */
    SYNCED = 's',   /* file, number of the sync */
};

struct record {
    uint64_t kind, a, b, c, first, second; /* the last two: how many bytes of either kind follow */
};

static void fail(const char *what, const char *about) {
    dprintf(2, "powerloss: %s: %s (%s)\n", what, about, strerror(errno));
    abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("POWERLOSS_FOLDER"), *path = getenv("POWERLOSS_LOG");
    const char *kept = getenv("POWERLOSS_GRAVE"), *at = getenv("POWERLOSS_KILL_AT");
    if (!given || !path || !kept) {
        return;
    }
    if (!realpath(given, folder) || !realpath(kept, grave)) {
        fail("folder", given);
    }
    folder_length = strlen(folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    /* Out of the way of the descriptors that the process counts on. */
    log_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 200);
    if (log_fd < 0) {
        fail("log", path);
    }
    close(fd);
    if (at) {
        kill_at = atol(at);
    }
}

/* One change or sync: where it may all end. */
static void step(void) {
    if (atomic_fetch_add(&steps, 1) == kill_at) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) {
            pause();
        }
    }
}

static void record(enum kind kind, uint64_t a, uint64_t b, uint64_t c, const void *first, size_t firsts,
                   const void *second, size_t seconds) {
    struct record head = {kind, a, b, c, firsts, seconds};
    struct iovec parts[3] = {
        {&head, sizeof head}, {(void *)first, firsts}, {(void *)second, seconds}};
    /* One call appends it whole, whoever else appends. */
    if (syscall(SYS_writev, log_fd, parts, 3) != (long)(sizeof head + firsts + seconds)) {
        fail("log", "not written");
    }
}

/* The name of a path that lies directly in the folder; NULL for any other. */
static const char *name_in_folder(const char *path) {
    if (strncmp(path, folder, folder_length) != 0 || path[folder_length] != '/') {
        return NULL;
    }
    const char *name = path + folder_length + 1;
    size_t length = strlen(name);
    int shared_memory = length >= 4 && strcmp(name + length - 4, "-shm") == 0;
    return *name == 0 || strchr(name, '/') || shared_memory ? NULL : name;
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) {
        return 0;
    }
    path[length] = 0;
    return 1;
}

/* Whether a descriptor is of a regular file of the folder, or, if asked for, of the folder itself. */
static int watched(int fd, struct stat *found, int folder_too) {
    char path[PATH_MAX];
    int before = errno;
    int is = log_fd >= 0 && fd != log_fd && fstat(fd, found) == 0 &&
             (S_ISREG(found->st_mode) || (folder_too && S_ISDIR(found->st_mode))) && path_of(fd, path) &&
             (S_ISREG(found->st_mode) ? found->st_nlink > 0 && name_in_folder(path) != NULL
                                      : strcmp(path, folder) == 0);
    errno = before;
    return is;
}

/* The whole path of what a call names, and its name if it lies directly in the folder. */
static const char *watched_name(int dir, const char *given, char *path) {
    if (log_fd < 0) {
        return NULL;
    }
    int before = errno;
    int whole = 1;
    if (given[0] == '/') {
        snprintf(path, PATH_MAX, "%s", given);
    } else {
        char base[PATH_MAX];
        whole = dir == AT_FDCWD ? getcwd(base, sizeof base) != NULL : path_of(dir, base);
        if (whole && snprintf(path, PATH_MAX, "%s/%s", base, given) >= PATH_MAX) {
            whole = 0;
        }
    }
    errno = before;
    return whole ? name_in_folder(path) : NULL;
}

/* The number of the file that has a name; 0 if none has. */
static uint64_t file_at(const char *path) {
    struct stat found;
    int before = errno;
    uint64_t number = lstat(path, &found) == 0 ? found.st_ino : 0;
    errno = before;
    return number;
}

static uint64_t folder_number(void) {
    return file_at(folder);
}

/* Keeps a file that is about to lose a name, so that it can be given it again. */
static void keep(const char *path, uint64_t number) {
    char kept[PATH_MAX + 32];
    snprintf(kept, sizeof kept, "%s/%llu", grave, (unsigned long long)number);
    if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, kept, 0) < 0 && errno != EEXIST) {
        fail("keep", path);
    }
}

/* Up to `length` bytes as they are now. By the same descriptor: to close another one of the same file would drop the
 * locks that the process holds on it. */
static char *bytes_at(int fd, off_t offset, size_t length, size_t *got) {
    char *bytes = malloc(length ? length : 1);
    if (!bytes) {
        fail("memory", "none");
    }
    *got = 0;
    while (*got < length) {
        long n = syscall(SYS_pread64, fd, bytes + *got, length - *got, offset + (off_t)*got);
        if (n < 0) {
            fail("read", "a file that is open for writing only");
        }
        if (n == 0) {
            break;
        }
        *got += (size_t)n;
    }
    return bytes;
}

static void record_write(int fd, const struct stat *found, off_t offset, const void *new, size_t length) {
    size_t got;
    char *old = bytes_at(fd, offset, length, &got);
    record(WRITE, found->st_ino, (uint64_t)offset, (uint64_t)found->st_size, old, got, new, length);
    free(old);
}

static void record_resize(int fd, const struct stat *found, off_t size) {
    size_t got = 0, lost = found->st_size > size ? (size_t)(found->st_size - size) : 0;
    char *old = bytes_at(fd, size, lost, &got);
    record(RESIZE, found->st_ino, (uint64_t)size, (uint64_t)found->st_size, old, got, NULL, 0);
    free(old);
}

/* Content. */

EXPORT ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    struct stat found;
    if (watched(fd, &found, 0)) {
        step();
        record_write(fd, &found, offset, bytes, length);
    }
    return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

EXPORT ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return pwrite64(fd, bytes, length, offset);
}

EXPORT ssize_t write(int fd, const void *bytes, size_t length) {
    struct stat found;
    if (watched(fd, &found, 0)) {
        step();
        int appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
        record_write(fd, &found, appends ? found.st_size : lseek(fd, 0, SEEK_CUR), bytes, length);
    }
    return syscall(SYS_write, fd, bytes, length);
}

EXPORT int ftruncate64(int fd, off64_t size) {
    struct stat found;
    if (watched(fd, &found, 0)) {
        step();
        record_resize(fd, &found, size);
    }
    return (int)syscall(SYS_ftruncate, fd, size);
}

EXPORT int ftruncate(int fd, off_t size) {
    return ftruncate64(fd, size);
}

/* Syncs. What was changed after one began may or may not be in it: the reader takes it for not. */

static int sync_of(int fd, long call) {
    struct stat found;
    if (!watched(fd, &found, 1)) {
        return (int)syscall(call, fd);
    }
    step();
    uint64_t number = (uint64_t)getpid() << 32 | (uint64_t)atomic_fetch_add(&syncs, 1);
    record(SYNCING, found.st_ino, number, 0, NULL, 0, NULL, 0);
    record(SYNCED, found.st_ino, number, 0, NULL, 0, NULL, 0);
    return 0;
}

EXPORT int fsync(int fd) {
    return sync_of(fd, SYS_fsync);
}

EXPORT int fdatasync(int fd) {
    return sync_of(fd, SYS_fdatasync);
}

/* Names. */

static int open_at(int dir, const char *given, int flags, mode_t mode) {
    char path[PATH_MAX];
    const char *name = flags & (O_CREAT | O_TRUNC) ? watched_name(dir, given, path) : NULL;
    uint64_t before = name ? file_at(path) : 0;
    if (name && before && flags & O_TRUNC) {
        errno = ENOTSUP;
        fail("not kept track of: O_TRUNC", path);
    }
    if (name && !before) {
        step();
    }
    int fd = (int)syscall(SYS_openat, dir, given, flags, mode);
    if (name && !before && fd >= 0) {
        record(NAME, file_at(path), 0, folder_number(), name, strlen(name), NULL, 0);
    }
    return fd;
}

#define MODE_OF(flags, mode) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

EXPORT int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(dir, path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(dir, path, flags, mode);
}

EXPORT int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    char path[PATH_MAX];
    const char *name = watched_name(to_dir, to, path);
    if (name) {
        step();
    }
    int done = (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
    if (name && done == 0) {
        record(NAME, file_at(path), 0, folder_number(), name, strlen(name), NULL, 0);
    }
    return done;
}

EXPORT int link(const char *from, const char *to) {
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int unlinkat(int dir, const char *given, int flags) {
    char path[PATH_MAX];
    const char *name = flags & AT_REMOVEDIR ? NULL : watched_name(dir, given, path);
    uint64_t number = name ? file_at(path) : 0;
    if (number) {
        step();
        keep(path, number);
        record(NAME, 0, number, folder_number(), name, strlen(name), NULL, 0);
    }
    return (int)syscall(SYS_unlinkat, dir, given, flags);
}

EXPORT int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}

EXPORT int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    char old_path[PATH_MAX], new_path[PATH_MAX];
    const char *old = watched_name(from_dir, from, old_path), *new = watched_name(to_dir, to, new_path);
    if ((old == NULL) != (new == NULL) || (old && flags)) {
        errno = ENOTSUP;
        fail("not kept track of: a rename into or out of the folder", to);
    }
    uint64_t number = old ? file_at(old_path) : 0, replaced = new ? file_at(new_path) : 0;
    if (number) {
        step();
        if (replaced) {
            keep(new_path, replaced);
        }
        record(RENAME, number, replaced, folder_number(), old, strlen(old), new, strlen(new));
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return renameat2(from_dir, from, to_dir, to, 0);
}

EXPORT int rename(const char *from, const char *to) {
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* What nobody does to these files today. */

static void refuse(int fd, const char *call) {
    struct stat found;
    if (watched(fd, &found, 0)) {
        errno = ENOTSUP;
        fail("not kept track of", call);
    }
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count) {
    refuse(fd, "writev");
    return syscall(SYS_writev, fd, parts, count);
}

EXPORT ssize_t sendfile64(int to, int from, off64_t *offset, size_t length) {
    refuse(to, "sendfile");
    return syscall(SYS_sendfile, to, from, offset, length);
}

EXPORT ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
    refuse(to, "copy_file_range");
    return syscall(SYS_copy_file_range, from, from_at, to, to_at, length, flags);
}

EXPORT int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    refuse(fd, "fallocate");
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) {
    if (fd >= 0 && flags & MAP_SHARED && protection & PROT_WRITE) {
        refuse(fd, "a shared writable mapping");
    }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
