/* Faults of a disk and of a clock, put between a process and libc by LD_PRELOAD; nothing of it is in the product.
 *
 * SHIM_CONTROL names a file that all processes of a node map, and that a test changes while they live (`shim.py` has the same
 * layout). Faults meet calls on paths below SHIM_ROOT alone; descriptors 0 to 2 are spared, so that messages come out. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum call { OPEN = 1, WRITE = 2, SYNC = 4, RENAME = 8, UNLINK = 16, MKDIR = 32 };

struct control {
    int64_t clock_ns;   /* added to the wall clock */
    int32_t fails_with; /* errno of every call that changes something; 0: none */
    int32_t short_writes; /* a write takes half of what it is given */
    int32_t kill_calls; /* calls that count, as a sum of `enum call` */
    int32_t kill_at;    /* SIGKILL for whoever makes the call of this number; 0: nobody */
    int32_t num_calls;  /* made so far, by all processes */
    int32_t num_faults; /* calls that failed or were cut short */
};

static struct control *control;
static const char *root;
static size_t root_len;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIM_CONTROL");
    root = getenv("SHIM_ROOT");
    if (!path || !root) return;
    root_len = strlen(root);
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = real(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) control = at;
}

static int below(const char *path) {
    return strncmp(path, root, root_len) == 0 && (path[root_len] == '/' || path[root_len] == 0);
}

static int of_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return 1;
}

static int is_path(int dir, const char *path) {
    char whole[2 * PATH_MAX];
    if (!path) return 0;
    if (path[0] == '/') return below(path);
    if (dir == AT_FDCWD) {
        if (!getcwd(whole, PATH_MAX)) return 0;
    } else if (!of_fd(dir, whole)) return 0;
    size_t n = strlen(whole);
    snprintf(whole + n, sizeof whole - n, "/%s", path);
    return below(whole);
}

static int is_fd(int fd) {
    char path[PATH_MAX];
    return fd > 2 && of_fd(fd, path) && below(path);
}

static int on(void) { return control && (control->fails_with || control->short_writes || control->kill_at); }

/* Whether this call fails, with errno set; perhaps it is the last one that the process makes. */
static int fault(enum call call) {
    if (control->kill_at && (control->kill_calls & call) &&
        __atomic_add_fetch(&control->num_calls, 1, __ATOMIC_SEQ_CST) == control->kill_at)
        kill(getpid(), SIGKILL);
    if (!control->fails_with) return 0;
    __atomic_add_fetch(&control->num_faults, 1, __ATOMIC_SEQ_CST);
    errno = control->fails_with;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, #name)

static int changes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)); }

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        REAL(int, name, const char *, int, ...); \
        return on() && changes(flags) && is_path(AT_FDCWD, path) && fault(OPEN) ? -1 : real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

#define OPENATS(name) \
    int name(int dir, const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        REAL(int, name, int, const char *, int, ...); \
        return on() && changes(flags) && is_path(dir, path) && fault(OPEN) ? -1 : real(dir, path, flags, mode); \
    }
OPENATS(openat)
OPENATS(openat64)

/* How much of a write gets through: all of it, a part, or -1 for none. */
static ssize_t cut(int fd, size_t size) {
    if (!on() || !is_fd(fd)) return size;
    if (fault(WRITE)) return -1;
    if (!control->short_writes || size < 2) return size;
    __atomic_add_fetch(&control->num_faults, 1, __ATOMIC_SEQ_CST);
    return size / 2;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    ssize_t part = cut(fd, size);
    return part < 0 ? -1 : real(fd, data, part);
}

#define PWRITES(name, offset_t) \
    ssize_t name(int fd, const void *data, size_t size, offset_t at) { \
        REAL(ssize_t, name, int, const void *, size_t, offset_t); \
        ssize_t part = cut(fd, size); \
        return part < 0 ? -1 : real(fd, data, part, at); \
    }
PWRITES(pwrite, off_t)
PWRITES(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int num) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    return on() && is_fd(fd) && fault(WRITE) ? -1 : real(fd, parts, num);
}

#define OF_FD(name, call) \
    int name(int fd) { \
        REAL(int, name, int); \
        return on() && is_fd(fd) && fault(call) ? -1 : real(fd); \
    }
OF_FD(fsync, SYNC)
OF_FD(fdatasync, SYNC)

#define TRUNCATES(name, offset_t) \
    int name(int fd, offset_t size) { \
        REAL(int, name, int, offset_t); \
        return on() && is_fd(fd) && fault(WRITE) ? -1 : real(fd, size); \
    }
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    return on() && is_path(AT_FDCWD, to) && fault(RENAME) ? -1 : real(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    return on() && is_path(to_dir, to) && fault(RENAME) ? -1 : real(from_dir, from, to_dir, to);
}

#define OF_PATH(name, call) \
    int name(const char *path) { \
        REAL(int, name, const char *); \
        return on() && is_path(AT_FDCWD, path) && fault(call) ? -1 : real(path); \
    }
OF_PATH(unlink, UNLINK)
OF_PATH(rmdir, UNLINK)

int unlinkat(int dir, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    return on() && is_path(dir, path) && fault(UNLINK) ? -1 : real(dir, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return on() && is_path(AT_FDCWD, path) && fault(MKDIR) ? -1 : real(path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    return on() && is_path(dir, path) && fault(MKDIR) ? -1 : real(dir, path, mode);
}

int bind(int fd, const struct sockaddr *address, socklen_t size) {
    REAL(int, bind, int, const struct sockaddr *, socklen_t);
    const struct sockaddr_un *local = (const struct sockaddr_un *)address;
    if (on() && address->sa_family == AF_UNIX && local->sun_path[0] && is_path(AT_FDCWD, local->sun_path) && fault(OPEN))
        return -1;
    return real(fd, address, size);
}

static void shift(struct timespec *at) {
    int64_t ns = at->tv_nsec + control->clock_ns % 1000000000;
    at->tv_sec += control->clock_ns / 1000000000 + (ns >= 1000000000) - (ns < 0);
    at->tv_nsec = (ns + 1000000000) % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int code = real(clock, at);
    if (!code && control && control->clock_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(at);
    return code;
}

int gettimeofday(struct timeval *at, void *zone) {
    REAL(int, gettimeofday, struct timeval *, void *);
    int code = real(at, zone);
    if (!code && control) at->tv_sec += control->clock_ns / 1000000000;
    return code;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
