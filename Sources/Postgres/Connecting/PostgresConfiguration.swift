// Where and how to connect. The string is taken apart once, at start, so that a mistake in it stops the program with one clear
// line; what it leaves open is filled with values under which no wait is endless.

/// A checked description of the server or servers to connect to.
///
/// Precedence: the connection string, then the `PG*` variables, then the defaults given here. Of a service file only what libpq
/// itself takes from it counts.
package struct PostgresConfiguration: Sendable, CustomStringConvertible, CustomReflectable {
    /// What a server must allow to be taken.
    package enum Access: String, Sendable {
        /// It takes writes (`target_session_attrs=read-write`).
        case readWrite = "read-write"
        /// Whatever answers first.
        case any
    }

    /// One server as it was named; the strings are empty where nothing was said.
    struct Target: Sendable, Equatable {
        var host: String
        var address: String
        var port: String
    }

    /// Servers in the order in which they are tried; empty when libpq has to find out (a service file).
    let targets: [Target]
    /// All keywords but those of `targets`.
    let keywords: [(keyword: String, value: String)]
    /// How long an attempt at one address may take.
    package let connectTimeout: Duration
    private let database: String?
    private let user: String?

    /// Reads `connectionString`: a URI, keywords, or empty for the `PG*` variables.
    ///
    /// - Throws: `configuration` with a message that holds nothing of the string.
    package init(
        connectionString: String, applicationName: String, access: Access = .readWrite,
        connectTimeout: Duration = .seconds(10)
    ) throws(PostgresError) {
        let string = try ConnectionString(connectionString)
        database = string.value("dbname") ?? ConnectionString.environmentValue("dbname")
        user = string.value("user") ?? ConnectionString.environmentValue("user")
        self.connectTimeout = try PostgresConfiguration.timeout(of: string) ?? connectTimeout
        targets = try PostgresConfiguration.targets(of: string)
        keywords = PostgresConfiguration.keywords(of: string, applicationName, access)
    }

    /// Hosts, database and user; never a password.
    package var description: String {
        var parts: [String] = []
        if !targets.isEmpty { parts.append("host=" + targets.map(\.name).joined(separator: ",")) }
        if let database { parts.append("dbname=\(database)") }
        if let user { parts.append("user=\(user)") }
        return parts.joined(separator: " ")
    }

    /// Nothing: `dump` must not find the password.
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// The first value of the keyword that was given, for example `sslmode`.
    package func value(_ keyword: String) -> String? { keywords.first { $0.keyword == keyword }?.value }
}

extension PostgresConfiguration.Target {
    /// Host and port for people.
    var name: String {
        let host = host.isEmpty ? (address.isEmpty ? "(local socket)" : address) : host
        return port.isEmpty ? host : "\(host):\(port)"
    }

    /// Whether the host is a name that must be looked up.
    var needsLookup: Bool {
        address.isEmpty && !host.isEmpty && !host.hasPrefix("/") && !host.hasPrefix("@")
    }
}

// MARK: - Taking the string apart

extension PostgresConfiguration {
    /// `connect_timeout` of the string or the environment; 0 and negative mean nothing was said, as nothing here is endless.
    private static func timeout(of string: ConnectionString) throws(PostgresError) -> Duration? {
        let text = string.value("connect_timeout") ?? ConnectionString.environmentValue("connect_timeout")
        guard let text, !text.isEmpty else { return nil }
        guard let seconds = Int(text) else {
            throw ConnectionString.unreadable("connect_timeout is not a whole number of seconds")
        }
        return seconds > 0 ? .seconds(min(seconds, 3600)) : nil
    }

    private static func targets(of string: ConnectionString) throws(PostgresError) -> [Target] {
        func list(_ keyword: String) -> [String] {
            let text = string.value(keyword) ?? ConnectionString.environmentValue(keyword)
            guard let text, !text.isEmpty else { return [] }
            return text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let hosts = list("host")
        let addresses = list("hostaddr")
        let ports = list("port")
        // Only libpq knows what a service file says about hosts.
        let service = string.value("service") ?? ConnectionString.environmentValue("service")
        if hosts.isEmpty && addresses.isEmpty && service != nil { return [] }
        let count = max(hosts.count, addresses.count, 1)
        guard hosts.isEmpty || addresses.isEmpty || hosts.count == addresses.count else {
            throw ConnectionString.unreadable("\(hosts.count) host names go with \(addresses.count) host addresses")
        }
        guard ports.count <= 1 || ports.count == count else {
            throw ConnectionString.unreadable("\(count) hosts go with \(ports.count) ports")
        }
        var targets: [Target] = []
        for index in 0..<count {
            let port = ports.count > 1 ? ports[index] : ports.first ?? ""
            targets.append(
                try checked(
                    Target(
                        host: index < hosts.count ? hosts[index] : "",
                        address: index < addresses.count ? addresses[index] : "", port: port)))
        }
        return targets
    }

    /// Refuses what a password that was not percent-encoded leaves in the place of host and port.
    private static func checked(_ target: Target) throws(PostgresError) -> Target {
        if target.host.dropFirst().contains("@") {
            throw ConnectionString.unreadable("the host name contains @")
        }
        if !target.port.isEmpty {
            guard let port = Int(target.port), (1...65_535).contains(port) else {
                throw ConnectionString.unreadable("the port is not a number from 1 to 65535")
            }
        }
        return target
    }

    private static func keywords(
        of string: ConnectionString, _ applicationName: String, _ access: Access
    ) -> [(keyword: String, value: String)] {
        let placed: Set<String> = ["host", "hostaddr", "port", "connect_timeout", "client_encoding"]
        var keywords = string.explicit.filter { !placed.contains($0.keyword) }
        func fill(_ keyword: String, _ value: String) {
            let isGiven = keywords.contains { $0.keyword == keyword }
            if !isGiven && ConnectionString.environmentValue(keyword) == nil { keywords.append((keyword, value)) }
        }
        keywords.append(("client_encoding", "UTF8"))
        fill("application_name", applicationName)
        fill("target_session_attrs", access.rawValue)
        // A peer that has gone is noticed after 30 s of silence, unacknowledged bytes after 15 s.
        fill("keepalives", "1")
        fill("keepalives_idle", "15")
        fill("keepalives_interval", "5")
        fill("keepalives_count", "3")
        fill("tcp_user_timeout", "15000")
        return keywords
    }
}
