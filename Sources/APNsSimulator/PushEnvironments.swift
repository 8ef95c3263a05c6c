// The two worlds of Apple's service. A device token belongs to one of them; each has its own host.

/// Which of Apple's two services a connection has reached.
package enum SimulatedEnvironment: String, Sendable, CaseIterable {
    /// `api.push.apple.com`
    case production
    /// `api.sandbox.push.apple.com`
    case sandbox

    /// Tells the environment from the host a client asked for, for a simulator that has one port for both.
    package init(authority: String) {
        self = authority.contains("sandbox") || authority.contains("development") ? .sandbox : .production
    }
}
