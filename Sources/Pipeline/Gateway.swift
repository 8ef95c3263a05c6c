// One of Apple's gateways as a lane sees it: a pool of connections under one credential, and the feeds of all apps that have this
// credential. Apple counts connections and provider tokens by credential, so apps of one team share them; what they do not
// share is room: each has a line of its own, and the lines take turns.

import APNs
import HTTP2
import PushModel
import PushStore
import Reactor

/// A pool and the feeds over it; loop-confined.
final class Gateway {
    let pool: HTTP2Pool
    private(set) var feeds: [PushFeed] = []
    /// What it is called in metrics.
    let name: GatewayName?
    /// Farewells with words, by reason.
    private var farewells: [String: UInt64] = [:]
    private let loop: EventLoop
    /// Nil where connections have a certificate.
    private let token: ProviderToken?
    private var unreachableSince: MonotonicTime?
    /// Which feed comes first.
    private var turn = 0
    /// The last farewell, and how many alike came before it without an answer in between.
    private var farewell: (connection: UInt32, reason: String, answered: UInt64, repeats: Int)?
    /// Connections that brought an answer 5xx and are to be replaced.
    private var faulty: Set<UInt32> = []
    private var replacing: LoopTimer?

    init(pool: HTTP2Pool, token: ProviderToken?, loop: EventLoop, name: GatewayName? = nil) {
        self.pool = pool
        self.name = name
        self.token = token
        self.loop = loop
    }

    /// Adds the line of one more app.
    func attach(_ feed: PushFeed) {
        feeds.append(feed)
        pool.onFarewell = { [weak self] in self?.heard($0) }
        pool.onRefusal = { [weak self] in self?.refused($0) }
    }

    /// Takes a line out; true when none is left.
    func detach(_ feed: PushFeed) -> Bool {
        feeds.removeAll { $0 === feed }
        return feeds.isEmpty
    }

    /// Closes all connections; what was written and not answered is unknown.
    func close() {
        if let replacing { loop.cancel(replacing) }
        pool.close()
    }

    /// States and counts at this moment.
    var figures: GatewayFigures { GatewayFigures(pool.snapshot, farewells: farewells) }

    // MARK: Reach

    /// Remembers since when it has been out of reach, and has the pool try again when it may.
    func look() {
        guard pool.isCutOff else {
            unreachableSince = nil
            return
        }
        unreachableSince = unreachableSince ?? loop.now
        pool.warmUp()
    }

    /// Whether the gateway is out of reach, and looks have found it so for at least `limit`.
    func isUnreachable(for limit: Duration) -> Bool {
        pool.isCutOff && loop.now.since(unreachableSince ?? loop.now) >= limit
    }

    // MARK: The line

    /// Pushes of one app before it is the turn of the next, where several share the pool.
    private static let quantum = 64

    /// Hands pushes to the pool until it is full or nothing waits; `ended` hears of each unit that left its line.
    ///
    /// Single users, lists and retries of all apps go before slices of broadcasts.
    func pump(_ now: BootTime, pauses: Set<ScopePause>, ended: (UnitInWork) -> Void) {
        pump(isUrgent: true, now, pauses, ended)
        pump(isUrgent: false, now, pauses, ended)
    }

    private func pump(
        isUrgent: Bool, _ now: BootTime, _ pauses: Set<ScopePause>, _ ended: (UnitInWork) -> Void
    ) {
        let quantum = feeds.count == 1 ? Int.max : Self.quantum
        var hasMore: Bool
        repeat {
            hasMore = false
            for step in feeds.indices {
                let feed = feeds[(turn + step) % feeds.count]
                let line = isUrgent ? feed.urgent : feed.bulk
                guard !line.items.isEmpty else { continue }
                if feed.pump(line, quantum, now, pauses: pauses, ended: ended) { hasMore = true }
            }
            // Whoever came first comes last the next time, also when the pool is full by then.
            turn = (turn + 1) % max(1, feeds.count)
        } while hasMore
    }

    // MARK: Connections

    /// How long the connections that brought answers 5xx may still be used: less than the shortest wait of a retry, which is
    /// thus sure to go over another one; and long enough that a gateway that fails now and then costs few connections.
    private static let replacement: Duration = .seconds(4)

    /// Does to a connection what an answer that came over it calls for.
    func carryOut(_ verdict: Verdict, on connection: UInt32) {
        switch verdict.connection {
        case .keep: return
        case .replace where verdict.isGatewayFault: return replaceSoon(connection)
        case .drain, .replace: break
        case .retoken: _ = token?.renewAfterExpired()
        case .freezeToken: token?.freeze()
        }
        pool.retire(connection: connection)
    }

    private func replaceSoon(_ connection: UInt32) {
        faulty.insert(connection)
        if replacing == nil { replaceFaulty() }
    }

    private func replaceFaulty() {
        replacing = nil
        guard !faulty.isEmpty else { return }
        for connection in faulty { pool.retire(connection: connection) }
        faulty.removeAll()
        replacing = loop.schedule(after: Self.replacement) { [weak self] in self?.replaceFaulty() }
    }

    /// A connection has ended with words.
    ///
    /// A fault of the credential or the environment holds all that goes this way, as the answer of the same name would.
    private func heard(_ words: HTTP2Farewell) {
        guard words.connection != farewell?.connection else { return }
        let said = Farewell(debugData: words.debugData)
        farewells[ReasonLabel.farewell(said.reason), default: 0] += 1
        var repeats = 0
        if let last = farewell, last.reason == said.reason, last.answered == pool.answered {
            repeats = last.repeats + 1
        }
        farewell = (words.connection, said.reason, pool.answered, repeats)
        guard let verdict = said.verdict(repeats: repeats) else { return }
        switch verdict.connection {
        case .retoken: _ = token?.renewAfterExpired()
        case .freezeToken: token?.freeze()
        case .keep, .drain, .replace: break
        }
        guard case .hold(let scope) = verdict.request else { return }
        for feed in feeds { feed.refused(scope, said.reason) }
    }

    /// Our certificate is not accepted; a new one, or a mistake mended on the other side, ends the pause by a probe.
    private func refused(_ fault: HTTP2Fault) {
        let reason = "TLS alert: \(fault.certificateAlert ?? fault.message)"
        for feed in feeds { feed.refused(.credential, reason) }
    }
}

/// The gateways of one lane, each opened once; loop-confined.
final class Gateways {
    /// What makes two ways the same.
    struct Key: Hashable {
        let endpoint: APNsEndpoint
        let proxy: HTTPProxy?
        let token: ObjectIdentifier?
        let tls: ObjectIdentifier

        init(_ way: AppWay) {
            endpoint = way.endpoint
            proxy = way.proxy
            token = way.token.map(ObjectIdentifier.init)
            tls = ObjectIdentifier(way.tls)
        }
    }

    private let make: (AppWay) -> Gateway
    private var opened: [Key: Gateway] = [:]
    /// Those that no app uses any more, while they finish what they have.
    private var leaving: [Gateway] = []
    /// What those have counted that are gone: a counter does not fall because a credential was changed.
    private var gone: [GatewayName: GatewayFigures] = [:]

    /// `make` builds one that has not been opened yet.
    init(_ make: @escaping (AppWay) -> Gateway) { self.make = make }

    /// The gateway that carries pushes this way.
    func gateway(for way: AppWay) -> Gateway {
        let key = Key(way)
        if let known = opened[key] { return known }
        let gateway = make(way)
        opened[key] = gateway
        return gateway
    }

    /// Closes all connections of the lane.
    func close() {
        for gateway in Array(opened.values) + leaving { gateway.close() }
        for gateway in leaving { remember(gateway) }
        leaving = []
    }

    /// States and counts of all at this moment, by name.
    var figures: [GatewayName: GatewayFigures] {
        var figures = gone
        for gateway in Array(opened.values) + leaving {
            if let name = gateway.name { figures[name, default: GatewayFigures()] += gateway.figures }
        }
        return figures
    }

    private func remember(_ gateway: Gateway) {
        if let name = gateway.name { gone[name, default: GatewayFigures()] += gateway.figures.closed }
    }

    /// Lets go of the gateways that no app uses any more.
    func retireUnused() {
        let unused = opened.filter(\.value.feeds.isEmpty)
        for (key, gateway) in unused {
            opened[key] = nil
            leaving.append(gateway)
        }
    }

    /// Waits until those have answered, at the latest until then, and closes them.
    func drainLeaving(until: MonotonicTime) async {
        for gateway in leaving {
            await gateway.pool.drain(until: until)
            gateway.close()
            // Unless the lane has ended meanwhile.
            if leaving.contains(where: { $0 === gateway }) { remember(gateway) }
            leaving.removeAll { $0 === gateway }
        }
    }
}
