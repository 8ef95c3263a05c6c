// The double of Apple's push service: it accepts connections, looks at requests and answers them, and all that
// happens is told in the journal.
//
//     port(s) ─► Gate ─► opened ─► SETTINGS (1 stream)
//                  │
//                  ├──► received ─► [arrivals] ──end of turn──► Judge ─► Ruling ─┬─► outbox ─► journal, flush ─► answer
//                  │                                                             └─► held (delay, silence) ──timer──┘
//                  └──► closed ─► journal
//
// Requests are looked at and answered at the end of a loop's turn, so that the journal is written once for all of them
// and before any answer leaves. Everything lives on one loop; the rules are in Judge and know nothing of it.

import HTTP2
package import Reactor
import TLS

/// One simulated push service, on one loop.
package final class Simulator {
    let loop: EventLoop
    let options: SimulatorOptions
    private let folder: CredentialFolder
    /// Kept for good: connections hold on to what they were shown.
    private var contexts: [TLSFace: TLSServerContext] = [:]
    let journal: Journal
    var judge: Judge
    /// The weather of the start, to come back to.
    let climate: Weather

    var gates: [Gate] = []
    var connections: [Int: ServedConnection] = [:]
    var arrivals: [(ServedConnection, HTTP2ServerRequest)] = []
    var outbox: [Outgoing] = []
    var waiters: [Waiter] = []
    /// Numbers those who wait, each of them once: the end of one's patience must not meet another.
    var nextWaiter = 1
    var isTurnPlanned = false
    var isSweeping = false
    private var nextNumber = 1
    /// Called when a control command asks the simulator to end.
    package var onQuit: () -> Void = {}

    /// Makes a simulator that does not listen yet.
    ///
    /// - Parameters:
    ///   - loop: where it will live.
    ///   - options: what it shall be like.
    ///   - folder: its credentials.
    ///   - complain: takes one line for people about a fault that does not end it.
    /// - Throws: `SimulatorError` when the journal cannot be opened or a key or certificate cannot be used.
    package init(
        loop: EventLoop, options: SimulatorOptions, folder: CredentialFolder, complain: @escaping (String) -> Void
    ) throws {
        self.loop = loop
        self.options = options
        climate = options.weather
        self.folder = folder
        journal = try Journal(path: options.journalPath, bodies: options.journalBodies, complain: complain)
        var rules = PushRules(bundleIDs: Set(options.effectiveBundleIDs), isStrict: options.isStrict)
        rules.minimumTokenLength = options.minimumTokenLength
        let keys = try [folder.registeredKey()] + options.keys.map { try $0.load() }
        judge = Judge(
            rules: rules, registry: KeyRegistry(keys: keys), weather: options.weather, seed: options.seed)
        // A folder that is of no use ends the simulator before it listens.
        _ = try context(for: climate.face)
    }

    /// What new connections are shown.
    func context(for face: TLSFace) throws -> TLSServerContext {
        if let known = contexts[face] { return known }
        let context = try folder.serverContext(face)
        contexts[face] = context
        return context
    }

    // MARK: Start and end

    /// Listens; on the loop.
    package func start() throws {
        addGates(options.port, options.sandboxPort, forManagement: false)
        addGates(options.managePort, options.sandboxManagePort, forManagement: true)
        // The ports are found out even when the weather wants them closed.
        for gate in gates { try gate.admit(.open, context(for: climate.face)) }
        weatherChanged()
    }

    /// A port for each environment, or one for both.
    private func addGates(_ production: UInt16?, _ sandbox: UInt16?, forManagement: Bool) {
        let shared: SimulatedEnvironment? = sandbox == nil ? nil : .production
        for (environment, port) in [(shared, production), (.sandbox, sandbox)] {
            guard let port else { continue }
            gates.append(Gate(simulator: self, environment: environment, isForManagement: forManagement, port: port))
        }
    }

    private func gate(_ environment: SimulatedEnvironment, forManagement: Bool) -> Gate? {
        gates.first { $0.isForManagement == forManagement && ($0.environment ?? environment) == environment }
    }

    /// What a connection may ask for: channels are managed at a port of their own, where there is one.
    func door(of served: ServedConnection) -> Door {
        if served.isForManagement { return .management }
        return gate(served.place, forManagement: true) == nil ? .everything : .pushes
    }

    /// The port of a service, or the one where its channels are managed.
    package func port(_ environment: SimulatedEnvironment, forManagement: Bool = false) -> UInt16 {
        let own = forManagement ? gate(environment, forManagement: true) : nil
        return (own ?? gate(environment, forManagement: false))?.port ?? 0
    }

    /// The address of a service, or the one where its channels are managed, as a sender is configured.
    package func url(_ environment: SimulatedEnvironment, forManagement: Bool = false) -> String {
        let host = options.address.contains(":") ? "[\(options.address)]" : options.address
        let name = ["0.0.0.0", "[::]"].contains(host) ? "localhost" : host
        return "https://\(name):\(port(environment, forManagement: forManagement))"
    }

    /// Stops listening, ends all connections, writes the journal to its end.
    package func stop() {
        for gate in gates { gate.close() }
        gates.removeAll()
        for connection in connections.values { connection.end(.notify, cause: "simulator stopped") }
        for waiter in waiters { waiter.reply("error the simulator ends") }
        waiters.removeAll()
        journal.flush()
    }

    /// All counts as one line of JSON.
    package var counts: String { judge.tally.json }

    // MARK: Connections

    func knocked() {
        judge.tally.knocks += 1
        planTurn()
    }

    func opened(_ wire: HTTP2ServerConnection, _ gate: Gate) {
        let served = ServedConnection(number: nextNumber, gate: gate, wire: wire, now: loop.now)
        nextNumber += 1
        if let der = wire.peerCertificate, let certificate = ClientCertificate(der: der) {
            served.trust.certificate = certificate
            served.limit = StreamLimit(startsTrusted: true)
        }
        wire.context = served
        connections[served.number] = served
        judge.tally.opened += 1
        journal.noteOpened(served.number, served.place, certificate: served.trust.certificate?.fingerprint)
        planTurn()
        switch judge.weather.admission {
        case .open, .refuse, .silent, .cut:
            if judge.weather.face.alpn == .http1 { speakHTTP1(served) } else { welcome(served) }
        case .abort: served.end(.abort, cause: "admission")
        case .mute: served.mute()
        }
    }

    /// Says, as a server of an older age does, that it has not understood a word, and hangs up.
    private func speakHTTP1(_ served: ServedConnection) {
        let text = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 11\r\n\r\nBad Request"
        served.wire?.sendRaw(Array(text.utf8))
        loop.schedule(after: Simulator.flushTime) { [weak served] in served?.end(.notify, cause: "HTTP/1.1") }
    }

    /// Sends the first SETTINGS, at once or as late as the weather wants.
    private func welcome(_ served: ServedConnection) {
        let delay = judge.weather.settingsDelay
        if delay == .zero { return sendFirstSettings(served) }
        loop.schedule(after: delay) { [weak self, weak served] in
            if let self, let served { sendFirstSettings(served) }
        }
    }

    private func sendFirstSettings(_ served: ServedConnection) {
        served.hasSettings = true
        let limit = served.limit.takeAnnouncement(judge.weather.levels) ?? judge.weather.levels.first
        // The other values are those that senders have seen.
        served.wire?.submitSettings(
            HTTP2ServerSettings(
                maxConcurrentStreams: UInt32(clamping: limit), initialWindowSize: 65_535, maxHeaderListSize: 8_000,
                headerTableSize: 4_096))
    }

    func closed(_ wire: HTTP2ServerConnection) {
        guard let served = wire.context as? ServedConnection else { return }
        connections[served.number] = nil
        served.wire = nil
        for (_, judged) in served.held.sorted(by: { $0.key < $1.key }) { noteLost(judged, "lost") }
        served.held.removeAll()
        judge.tally.closed += 1
        journal.noteClosed(
            served.number, served.place, requests: served.requests,
            cause: served.cause ?? "the sender, or its breach of HTTP/2")
        planTurn()
    }

    // MARK: Turns

    /// Makes sure that the end of this turn is ours.
    func planTurn() {
        guard !isTurnPlanned else { return }
        isTurnPlanned = true
        loop.atEndOfTurn(self)
    }
}

/// One listening port.
final class Gate: HTTP2ServerHandler {
    private unowned let simulator: Simulator
    /// nil: the requests tell.
    let environment: SimulatedEnvironment?
    /// Whether channels are managed there, and nothing else.
    let isForManagement: Bool
    /// The port; found out when it was left to the kernel.
    private(set) var port: UInt16
    private var server: HTTP2Server?
    private var spoilt: SpoiltGate?
    private(set) var admission = AdmissionForm.refuse

    init(simulator: Simulator, environment: SimulatedEnvironment?, isForManagement: Bool, port: UInt16) {
        self.simulator = simulator
        self.environment = environment
        self.isForManagement = isForManagement
        self.port = port
    }

    /// Listens, again on the same port, in the way that the weather wants; new connections are shown `tls`.
    func admit(_ form: AdmissionForm, _ tls: TLSServerContext) throws {
        server?.tls = tls
        if form == admission { return }
        close()
        switch form {
        case .refuse: break
        case .silent, .cut:
            spoilt = try SpoiltGate(
                loop: simulator.loop, address: simulator.options.address, port: port, cuts: form == .cut
            ) { [unowned simulator] in simulator.knocked() }
        case .open, .abort, .mute: try open(tls)
        }
        admission = form
    }

    private func open(_ tls: TLSServerContext) throws {
        var configuration = HTTP2ServerConfiguration()
        configuration.initialSettings = nil
        let server = try HTTP2Server(
            loop: simulator.loop, address: simulator.options.address, port: port, tls: tls,
            configuration: configuration, handler: self)
        port = server.port
        self.server = server
    }

    /// Stops listening; connections stay.
    func close() {
        server?.stopListening()
        server = nil
        spoilt?.close()
        spoilt = nil
        admission = .refuse
    }

    func knocked() { simulator.knocked() }
    func opened(_ connection: HTTP2ServerConnection) { simulator.opened(connection, self) }
    func received(_ request: HTTP2ServerRequest, on connection: HTTP2ServerConnection) {
        simulator.received(request, on: connection)
    }
    func streamClosed(_ streamID: Int32, code: UInt32, on connection: HTTP2ServerConnection) {
        simulator.streamClosed(streamID, code: code, on: connection)
    }
    func closed(_ connection: HTTP2ServerConnection) { simulator.closed(connection) }
}
