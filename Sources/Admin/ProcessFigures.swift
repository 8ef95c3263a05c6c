// What every exporter says about its process, under the names that dashboards know.

import Glibc
package import Telemetry

extension GaugeMetric {
    static let startTime = GaugeMetric(
        "process_start_time_seconds", help: "Start of the process, in seconds since 1970.")
    static let residentMemory = GaugeMetric("process_resident_memory_bytes", help: "Memory of the process.")
    static let openDescriptors = GaugeMetric("process_open_fds", help: "Open file descriptors.")
    static let maxDescriptors = GaugeMetric("process_max_fds", help: "File descriptors that may be open.")
}

extension CounterMetric {
    static let processorTime = CounterMetric(
        "process_cpu_seconds_total", help: "Processor time of the process, user and system together.")
}

/// Figures of this process.
package enum ProcessFigures {
    /// Adds them to the metrics of the process.
    package static func add(to registry: MetricsRegistry) {
        let start = WallTime.now()
        registry.gauge(.startTime).set(Double(start.seconds) + Double(start.milliseconds) / 1000)
        registry.gauge(.residentMemory) { residentBytes.map(Double.init) }
        registry.counters(.processorTime) { processorSeconds.map { [(.none, $0)] } ?? [] }
        registry.gauge(.openDescriptors) { openDescriptors.map(Double.init) }
        registry.gauge(.maxDescriptors) { maxDescriptors }
    }

    /// Second field of /proc/self/statm, in pages.
    static var residentBytes: Int? {
        let descriptor = unsafe open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = unsafe read(descriptor, &bytes, bytes.count)
        let text = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        let fields = text.split(separator: " ")
        guard fields.count > 1, let pages = Int(fields[1]) else { return nil }
        return pages * sysconf(Int32(_SC_PAGESIZE))
    }

    static var processorSeconds: Double? {
        var usage = rusage()
        guard unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return nil }
        let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
        return Double(seconds) + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }

    static var openDescriptors: Int? {
        guard let folder = unsafe opendir("/proc/self/fd") else { return nil }
        defer { unsafe closedir(folder) }
        var count = 0
        while unsafe readdir(folder) != nil { count += 1 }
        // The folder itself and its two dots.
        return max(0, count - 3)
    }

    static var maxDescriptors: Double? {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return limit.rlim_cur == rlim_t.max ? .infinity : Double(limit.rlim_cur)
    }
}
