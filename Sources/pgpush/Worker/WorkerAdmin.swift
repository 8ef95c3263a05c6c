// The pages of a worker: what it tells about itself, put behind the addresses that monitoring and container platforms ask.

import Admin
import Pipeline
import PushStore
import Telemetry

/// /metrics, /healthz and /readyz of a running worker.
struct WorkerAdmin: Sendable {
    /// What the pages show; the worker fills it.
    let metrics: WorkerMetrics
    private let server: AdminServer

    /// Listens, from the first moment on: a worker that waits for its database is alive and not ready.
    ///
    /// - Throws: `ConfigurationError` when the address is taken or is none of this machine.
    init(_ address: AdminAddress, logger: Logger) throws(ConfigurationError) {
        let metrics = WorkerMetrics(version: Version.text)
        ProcessFigures.add(to: metrics.registry)
        let pages = AdminPages([
            "/metrics": { .metrics(metrics.registry.prometheusText()) },
            "/healthz": { .probe(metrics.stalledLoops) },
            "/readyz": { .probe(metrics.unreadiness) },
        ])
        do throws(AdminError) {
            server = try AdminServer(address, pages: pages, everySecond: { metrics.beats.look() })
        } catch {
            throw ConfigurationError(
                variable: WorkerAdmin.variable, problem: "cannot be listened on: \(address): \(error)",
                remedy: "choose a free address of this machine; each worker on a machine needs a port of its own")
        }
        self.metrics = metrics
        logger.notice("metrics and health are served", [.address: server.address.description])
    }

    /// Stops listening.
    func stop() { server.stop() }

    // MARK: Setting

    private static let variable = "PGPUSH_HTTP"

    /// Where to listen; nil when nobody wants it.
    static func address(_ settings: Settings) throws(ConfigurationError) -> AdminAddress? {
        guard let text = settings[variable] else { return nil }
        guard let address = AdminAddress(text) else {
            throw ConfigurationError(
                variable: variable, problem: "is \"\(text.prefix(80))\", which is no address to listen on",
                remedy: "write host:port, such as 127.0.0.1:9464, [::1]:9464, or :9464 for all addresses of the machine"
            )
        }
        return address
    }
}

extension LogKey {
    fileprivate static let address = LogKey("http.address")
}
