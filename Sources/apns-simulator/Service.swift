// The running simulator: loop, signals, control channels, ready line, end.

import APNsSimulator
import CLinux
import Reactor

/// The simulator in its process; everything but `run` happens on the loop.
final class Service: @unchecked Sendable {
    private let loop: EventLoop
    private let options: SimulatorOptions
    private let folder: CredentialFolder
    private var simulator: Simulator?
    private var signals: SignalWatch?
    private var channel: ControlChannel?
    private var socket: ControlSocket?

    private init(_ options: SimulatorOptions) throws {
        self.options = options
        let home = unsafe getenv("HOME").map { unsafe String(cString: $0) }
        folder = try CredentialFolder(
            path: options.effectiveFolder(home: home), keyID: options.keyID, teamID: options.teamID)
        for certificate in options.certificates {
            try folder.issue(certificate, bundleID: options.effectiveBundleIDs.first ?? "")
        }
        loop = try EventLoop(name: "simulator")
    }

    /// Serves until a signal or a command ends it.
    static func run(_ options: SimulatorOptions) throws {
        let service = try Service(options)
        try service.loop.start()
        do {
            try service.loop.runBlocking { _ in try service.begin() }
        } catch {
            service.loop.stop()
            service.loop.join()
            throw error
        }
        service.loop.join()
    }

    private func begin() throws {
        let simulator = try Simulator(loop: loop, options: options, folder: folder, complain: say)
        self.simulator = simulator
        simulator.onQuit = { [weak self] in self?.end() }
        signals = try SignalWatch(loop: loop, signals: [SIGTERM, SIGINT, SIGUSR1]) { [weak self] signal in
            if signal == SIGUSR1 { self?.sayCounts() } else { self?.end() }
        }
        try simulator.start()
        try openControl(simulator)
        try announce(simulator)
    }

    private func openControl(_ simulator: Simulator) throws {
        let handle: (String, @escaping (String) -> Void) -> Void = { [weak simulator] line, reply in
            simulator?.control(line, reply: reply)
        }
        if let path = options.controlSocket { socket = try ControlSocket(loop: loop, path: path, handle: handle) }
        guard options.controlsByInput else { return }
        channel = try ControlChannel(
            loop: loop, input: STDIN_FILENO, output: STDOUT_FILENO, ownsDescriptors: false, handle: handle
        ) { [weak self] in self?.end() }
    }

    private func announce(_ simulator: Simulator) throws {
        let variables = try environment(simulator).map { "\($0)=\($1)\n" }.joined()
        if let file = options.environmentFile {
            if file == "-" {
                put(variables, on: STDOUT_FILENO)
            } else {
                try FileBytes.replace(file, with: Array(variables.utf8))
            }
        }
        let urls =
            "production=\(simulator.url(.production)) sandbox=\(simulator.url(.sandbox)) "
            + "manage=\(simulator.url(.production, forManagement: true)) "
            + "sandbox-manage=\(simulator.url(.sandbox, forManagement: true))"
        put("apns-simulator ready \(urls) pid=\(getpid())\n", on: STDOUT_FILENO)
    }

    private func environment(_ simulator: Simulator) throws -> [(String, String)] {
        let bundleID = options.effectiveBundleIDs.first ?? ""
        let common = [
            ("APNS_PRODUCTION_URL", simulator.url(.production)), ("APNS_SANDBOX_URL", simulator.url(.sandbox)),
            ("APNS_MANAGE_URL", simulator.url(.production, forManagement: true)),
            ("APNS_CA_PATH", folder.authorityPath),
            ("APNS_BUNDLE_ID", bundleID),
        ]
        var credentials: [(String, String)] = []
        if options.authentication != .certificate {
            credentials += [
                ("APNS_KEY_PATH", folder.signingKeyPath), ("APNS_KEY_ID", folder.keyID),
                ("APNS_TEAM_ID", folder.teamID),
            ]
        }
        if options.authentication != .token {
            credentials += [
                ("APNS_CERT_PATH", try folder.clientCertificate(bundleID: bundleID)),
                ("APNS_CERT_PASSWORD", CredentialFolder.password),
            ]
        }
        return common + credentials
    }

    private func sayCounts() { if let simulator { say("apns-simulator: \(simulator.counts)") } }

    private func end() {
        guard let simulator else { return }
        sayCounts()
        self.simulator = nil
        simulator.stop()
        socket?.close()
        signals?.close()
        // The last answers and TLS ends leave in what remains of this turn.
        loop.stop()
    }
}
