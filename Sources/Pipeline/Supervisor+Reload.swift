// Credentials change while a worker runs: SIGHUP has them read again. Lanes finish under the old ones what is on the wire and go over
// to the new ones with the rest; a mistake in them changes nothing. And a word in time about certificates that come to their end.

import APNs
import PushModel
import PushStore
import Reactor
import Telemetry

extension Supervisor {
    /// Reads the credentials again, off the loop, and has the lanes go over to them.
    func reload() {
        guard let read = settings.reload, !isEnding else { return }
        logger.notice("reading the credentials again")
        let taken = BlockingThreads.shared.run { [loop, self] in
            let result = Result { try read() }
            loop.execute { self.assumeIsolated { $0.reloaded(result) } }
        }
        if !taken { logger.error("the credentials could not be read again, the old ones stay: no thread to be had") }
    }

    private func reloaded(_ result: Result<[AppRoute], any Error>) {
        let changed: [AppRoute]
        switch result {
        case .success(let found): changed = found
        case .failure(let error):
            return logger.error(
                "the credentials could not be read again, the old ones stay",
                [.error: (error as? CommandFailure)?.message ?? "\(error)"])
        }
        let known = Set(routes.map(\.served.name))
        let names = Set(changed.map(\.served.name))
        if known != names {
            logger.warning(
                "apps that were added or removed need a restart",
                [.app: known.symmetricDifference(names).sorted().joined(separator: ", ")])
        }
        take(changed.filter { known.contains($0.served.name) })
        logger.notice("the credentials were read again")
        let lanes = lanes
        Task(executorPreference: loop.taskExecutor) { [changed] in
            for lane in lanes { await lane.replace(changed) }
        }
    }

    /// Says once a day which certificates are about to expire, or have.
    func warnOfExpiry() {
        let now = DatabaseClock.unixSeconds
        for route in routes {
            for (environment, way) in route.ways.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                guard let certificate = way.certificate,
                    expiry.isDue(
                        "\(route.served.name) \(certificate.fingerprint)", daysLeft: certificate.daysLeft(at: now),
                        now: now)
                else { continue }
                let days = certificate.daysLeft(at: now)
                logger.log(
                    days < 0 ? .error : .warning,
                    days < 0 ? "a certificate has expired" : "a certificate is about to expire",
                    [
                        .app: route.served.name, .environment: environment.rawValue,
                        .certificate: certificate.fingerprint,
                        .daysLeft: days,
                    ])
            }
        }
    }
}

/// When there is something to say about the end of a certificate; pure.
struct ExpiryNotice {
    private static let pause: Int64 = 86_400

    private var saidAt: [String: Int64] = [:]

    /// Whether it is to be said now (Unix seconds), which counts as said.
    mutating func isDue(_ name: String, daysLeft: Int64, now: Int64) -> Bool {
        guard daysLeft < APNsCertificate.daysOfNotice, now - (saidAt[name] ?? .min / 2) >= Self.pause else {
            return false
        }
        saidAt[name] = now
        return true
    }
}
