package supervise

import "fmt"

// CoveredPaths are what a container, too, must not show of the machine, besides
// what its daemon covers anyway. Sizes and numbers of processors stay: programs
// choose their number of threads by them.
func CoveredPaths() []string {
	paths := []string{
		"/sys/firmware", "/sys/kernel", "/sys/module", "/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/power", "/sys/hypervisor",
		"/sys/devices/virtual/dmi", "/sys/devices/virtual/powercap", "/sys/devices/pci0000:00",
	}
	for _, name := range coveredProc() {
		paths = append(paths, "/proc"+name)
	}
	return paths
}

// LockedPaths are what a container must have for reading only.
func LockedPaths() []string {
	var paths []string
	for _, name := range lockedProc() {
		paths = append(paths, "/proc"+name)
	}
	return paths
}

// lockedProc are the parts of /proc that are made read-only.
func lockedProc() []string { return []string{"/sys", "/sysrq-trigger", "/irq", "/bus", "/fs"} }

// coveredProc are the parts of /proc that tell of the machine: of its memory, its
// devices, its kernel and its other users.
func coveredProc() []string {
	return []string{
		"/kcore", "/keys", "/key-users", "/kmsg", "/kallsyms", "/timer_list", "/timer_stats", "/sched_debug", "/latency_stats", "/slabinfo",
		"/vmallocinfo", "/pagetypeinfo", "/kpagecount", "/kpageflags", "/kpagecgroup", "/iomem", "/ioports", "/mtrr", "/interrupts",
		"/acpi", "/scsi", "/asound", "/driver", "/dma",
	}
}

// WritablePaths are what everybody changes files below, whatever the project: Setup.Writable
// has these and the driver's own. What in them must not be changed the mounts see to.
func WritablePaths() []string { return []string{"/tmp", "/var/tmp", "/run", "/dev", "/proc"} }

// TemporarySize is the part of a bound of all temporary files that a file system in
// memory has, as an option of its mount; empty without a bound.
func TemporarySize(at string, all int64) string {
	if all <= 0 {
		return ""
	}
	return fmt.Sprintf(",size=%d", temporaryPart(at, all))
}

// temporaryFiles is the same for the number of files.
func temporaryFiles(at string, all int64) string {
	const least = 1024
	if all <= 0 {
		return ""
	}
	return fmt.Sprintf(",nr_inodes=%d", max(temporaryPart(at, all), least))
}

func temporaryPart(at string, all int64) int64 {
	const sixteenths = 16
	parts := map[string]int64{"/tmp": 8, "/var/tmp": 4, "/dev/shm": 3, "/run": 1}
	return all / sixteenths * parts[at]
}
