/* A slow disk and a clock that jumps, for a process that runs with this library preloaded.
   The three numbers lie in the file CHAOS_WEATHER and may change at any time: see slow_disk_and_clock.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct weather { int64_t wall_s, slept_s, sync_us; };
static volatile const struct weather *now;

__attribute__((constructor)) static void look(void) {
    const char *path = getenv("CHAOS_WEATHER");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *now, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) now = found;
    close(file);
}

int clock_gettime(clockid_t which, struct timespec *at) {
    long failed = syscall(SYS_clock_gettime, which, at);
    if (!failed && now && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += now->wall_s;
    if (!failed && now && which == CLOCK_BOOTTIME) at->tv_sec += now->slept_s;
    return (int)failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    at->tv_sec = exact.tv_sec;
    at->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (at) *at = exact.tv_sec;
    return exact.tv_sec;
}

static void drag(void) {
    if (now && now->sync_us > 0) usleep((useconds_t)now->sync_us);
}

int fsync(int file) { drag(); return (int)syscall(SYS_fsync, file); }
int fdatasync(int file) { drag(); return (int)syscall(SYS_fdatasync, file); }
