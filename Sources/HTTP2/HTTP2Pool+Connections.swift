// The connections of a pool: when they are opened, what happens when they end, and what is told about them.

import Reactor
import Telemetry

extension HTTP2Pool {
    // MARK: For the owner

    /// Counts and states at this moment.
    package var snapshot: HTTP2PoolSnapshot {
        var snapshot = statistics
        for connection in connections {
            switch connection.state {
            case .connecting, .handshaking: snapshot.connecting += 1
            case .open:
                snapshot.open += 1
                snapshot.streamLimits.append(connection.gate.limit)
            case .draining: snapshot.draining += 1
            case .closed: break
            }
        }
        snapshot.queued = queued
        snapshot.inFlight = inFlight
        let next = budget.notBefore
        if next > .now() { snapshot.nextAttempt = next }
        return snapshot
    }

    /// Opens a connection before the first request, when there is none.
    package func warmUp() {
        guard !isClosed, connections.isEmpty, budget.notBefore <= .now() else { return }
        open()
    }

    /// Lets a connection finish its streams and take no more; another takes its place when it is needed.
    package func retire(connection number: UInt32) {
        connections.first { $0.number == number }?.drain(nil)
        wake()
    }

    /// Lets connections go that may not carry the present authorization; others take their place.
    func retireBarred() {
        guard configuration.authorizationHold > .zero, let value = authorization?.authorization else { return }
        for connection in connections where connection.state == .open && connection.isBarred(from: value, at: loop.now)
        {
            connection.drain(nil)
        }
    }

    // MARK: Opening

    /// Opens a connection if one is needed and allowed, or looks again later.
    func evaluate() {
        let now = MonotonicTime.now()
        let connecting = connections.count(where: \.isConnecting)
        let usable = connections.filter { $0.isUsable && !$0.isStuck(at: now) }
        let state = GrowthPlan.State(
            queued: queued, connecting: connecting, usable: usable.count,
            leaving: connections.count - connecting - usable.count, free: usable.reduce(0) { $0 + $1.room })
        // A connection that seemed dead was replaced, and has come back.
        if usable.count > growth.maximum { usable.min { $0.answers < $1.answers }?.drain(nil) }
        switch growth.decide(state, now: now) {
        case .enough:
            // When the last one that is of use gets stuck, a look is due.
            if queued > 0, let due = usable.compactMap(\.stuckAt).min() { evaluate(at: due) }
        case .wait(let due): evaluate(at: due)
        case .open:
            let next = budget.notBefore
            if next <= now { open() } else { evaluate(at: next) }
        }
    }

    private func evaluate(at due: MonotonicTime) {
        guard due < evaluationDue else { return }
        if let evaluationTimer { loop.cancel(evaluationTimer) }
        evaluationDue = due
        evaluationTimer = loop.schedule(after: due.since(.now())) { [weak self] in
            guard let self else { return }
            evaluationTimer = nil
            evaluationDue = .distantFuture
            wake()
        }
    }

    private func open() {
        nextNumber += 1
        statistics.connectAttempts += 1
        budget.attempted()
        let connection = ClientConnection(pool: self, number: nextNumber)
        connections.append(connection)
        connection.start()
    }

    /// Addresses in the order in which a new connection tries them.
    func ordered(_ found: [SocketAddress]) -> [SocketAddress] {
        addressTurn += 1
        return addresses.ordered(found, turn: addressTurn)
    }

    // MARK: Called by connections

    /// A connection is ready for requests.
    func opened(_ connection: ClientConnection) {
        statistics.lastConnectFault = nil
        logger.info("connection opened", [.peer: connection.peer, .connection: connection.number])
        wake()
    }

    /// A connection has carried its first answer: the way is good.
    func proved() { budget.succeeded() }

    /// A connection takes no more requests.
    func draining(_ connection: ClientConnection, _ goAway: HTTP2Fault?) {
        if let goAway {
            statistics.goAways += 1
            statistics.lastGoAway = goAway
            logger.notice(
                "the peer closes a connection",
                [
                    .peer: connection.peer, .connection: connection.number, .fault: goAway.message,
                    .streams: connection.openStreams,
                ])
        }
        wake()
    }

    /// A connection has ended; its requests are settled by the connection.
    func ended(
        _ connection: ClientConnection, before: ClientConnection.State, fault: HTTP2Fault, wasLost: Bool, unknown: Int
    ) {
        connections.removeAll { $0 === connection }
        guard !isClosed else { return }
        let now = MonotonicTime.now()
        let fields: LogFields = [
            .peer: connection.peer, .connection: connection.number, .fault: fault.description,
            .answers: connection.answers, .unknownStreams: unknown,
        ]
        if before == .connecting || before == .handshaking {
            statistics.connectFailures += 1
            logger.warning("connecting failed", fields)
        } else if wasLost {
            statistics.connectionsLost += 1
            if fault.code == .pingTimeout { statistics.pingTimeouts += 1 }
            logger.log(unknown > 0 ? .warning : .info, "connection lost", fields)
        } else {
            logger.debug("connection closed", fields)
        }
        if connection.answers == 0 && (wasLost || fault.code == .goAway) {
            statistics.lastConnectFault = fault
            budget.failed()
            if fault.certificateAlert != nil { onRefusal?(fault) }
        } else if let opened = connection.openedAt, now.since(opened) < .seconds(10) {
            budget.endedEarly()
        }
        wake()
    }
}
