// What producers and operators do meanwhile: they insert, and they cancel. Every statement is repeated until the database has
// taken it, under a key that makes it count once.

import TestSupport

/// One act of a producer or operator.
enum Act: Sendable, CustomStringConvertible {
    /// Notifications to single users.
    case singles(users: [Int], delivery: String)
    /// One to several users.
    case list(users: [Int])
    /// One to tokens, some of which nobody registered.
    case tokens([String])
    case broadcast(environment: String?, delivery: String, expiresAfter: Int?)
    /// Of the broadcast inserted last, or of the notification inserted first of those that nobody has cancelled.
    case cancel(ofBroadcast: Bool)

    var description: String {
        switch self {
        case .singles(let users, let delivery): "\(users.count) singles \(delivery)"
        case .list(let users): "a list of \(users.count) users"
        case .tokens(let tokens): "a list of \(tokens.count) tokens"
        case .broadcast(let environment, let delivery, let end):
            "a broadcast to \(environment ?? "both environments") \(delivery)" + (end.map { " for \($0) s" } ?? "")
        case .cancel(let ofBroadcast): "cancel of the \(ofBroadcast ? "last broadcast" : "first notification")"
        }
    }
}

/// Devices and acts of a scenario.
struct Workload: Sendable {
    let devices: Int
    let tokens: [String]
    let acts: [(at: Duration, act: Act)]
    /// How many users the devices belong to.
    let users: Int

    /// Answers that end well by themselves, for some of the tokens: dead ones, once refused, once broken off, odd answers.
    private static let magic = [
        "0410", "1410", "2410", "3410", "0400", "0429", "2429", "0500", "0503", "2503", "3503", "f400", "01aa", "02aa",
        "01bb",
        "02bb", "04bb", "05bb", "00cc", "01cc", "02cc", "03cc", "04cc", "00dd", "05dd", "06dd", "00ee", "01ee", "02ee",
    ]

    /// How tokens begin that are 410 since a day; their devices have registered later.
    static let returned = String(DeviceTokens.magic("1410").prefix(12))

    /// Draws acts over `length`; with `isPlain` all tokens are accepted and each is another user's.
    init(_ random: inout SeededGenerator, devices: Int, length: Duration, isPlain: Bool = false) {
        self.devices = devices
        users = isPlain ? devices : max(1, devices * 3 / 4)
        tokens = (1...devices).map {
            !isPlain && random.happens(0.03) ? DeviceTokens.magic(random.pick(Self.magic), $0) : DeviceTokens.plain($0)
        }
        var acts: [(at: Duration, act: Act)] = []
        var time = Duration.zero
        while time < length {
            acts.append((time, Workload.draw(&random, users: users, tokens)))
            time += .milliseconds(random.number(200...4000))
        }
        // Something for everybody at the beginning, and at the end.
        acts.insert((.zero, .broadcast(environment: nil, delivery: "at_least_once", expiresAfter: nil)), at: 0)
        acts.append((length, .broadcast(environment: nil, delivery: "at_least_once", expiresAfter: nil)))
        self.acts = acts
    }

    private static func draw(_ random: inout SeededGenerator, users: Int, _ tokens: [String]) -> Act {
        let delivery = random.happens(0.2) ? "at_most_once" : "at_least_once"
        switch random.number(0...11) {
        case 0...5:
            return .singles(
                users: (1...random.number(1...40)).map { _ in random.number(1...users) }, delivery: delivery)
        case 6: return .list(users: (1...random.number(2...60)).map { _ in random.number(1...users) })
        case 7:
            let strange = (1...3).map { _ in DeviceTokens.plain(random.number(10_000_000...20_000_000)) }
            return .tokens(strange + (1...random.number(1...10)).map { _ in random.pick(tokens) })
        case 8, 9:
            return .broadcast(
                environment: random.pick([nil, nil, "production", "sandbox"]), delivery: delivery,
                expiresAfter: random.happens(0.2) ? random.number(2...30) : nil)
        default: return .cancel(ofBroadcast: random.happens(0.6))
        }
    }
}

extension Field {
    /// Registers the devices of a workload; every tenth is on the sandbox, the last few are inactive.
    func register(_ workload: Workload) throws {
        let last = workload.devices - workload.devices / 50
        try rig.psql(
            """
            INSERT INTO devices (id, user_id, device_token, environment, is_active, registered_at)
            SELECT o, 'user-' || (o - 1) % \(workload.users) + 1, t,
                   CASE o % 10 WHEN 0 THEN 'sandbox' ELSE 'production' END, o <= \(last),
                   now() - CASE WHEN t LIKE '\(Workload.returned)%' THEN interval '1 hour' ELSE interval '2 days' END
            FROM unnest('{\(workload.tokens.joined(separator: ","))}'::text[]) WITH ORDINALITY x(t, o);
            SELECT setval(pg_get_serial_sequence('devices', 'id'), \(workload.devices));
            """)
        record {
            $0.inactive = Set(workload.tokens[last...])
            $0.returned = Set(workload.tokens.filter { $0.hasPrefix(Workload.returned) })
        }
    }

    /// Does all that a workload says, each act at its time or as soon as the database lets it.
    func perform(_ workload: Workload, keys: String = "act") async throws {
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { checks in
            for (number, step) in workload.acts.enumerated() {
                try await pass(max(.zero, step.at - (ContinuousClock.now - start)))
                if case .cancel(let ofBroadcast) = step.act {
                    let cancels = try await cancel(ofBroadcast: ofBroadcast)
                    checks.addTask { try await self.listen(to: cancels) }
                } else {
                    try await insist(statement(step.act, key: "\(keys)-\(number)"))
                }
            }
            try await checks.waitForAll()
        }
    }

    private func statement(_ act: Act, key: String) -> String {
        func insert(_ columns: String, _ select: String) -> String {
            "INSERT INTO scheduled_notifications (body, idempotency_key, \(columns)) SELECT '\(key)', '\(key)', \(select) ON CONFLICT DO NOTHING"
        }
        func array(_ values: [String]) -> String { "'{\(values.joined(separator: ","))}'" }
        switch act {
        case .singles(let users, let delivery):
            let names = array(users.map { "user-\($0)" })
            return """
                INSERT INTO scheduled_notifications (body, idempotency_key, user_id, delivery)
                SELECT '\(key)-' || o, '\(key)-' || o, u, '\(delivery)' FROM unnest(\(names)::text[]) WITH ORDINALITY x(u, o)
                ON CONFLICT DO NOTHING
                """
        case .list(let users): return insert("user_ids", array(users.map { "user-\($0)" }))
        case .tokens(let tokens): return insert("device_tokens", array(tokens))
        case .broadcast(let environment, let delivery, let end):
            return insert(
                "broadcast, environment, delivery, expires_at",
                "true, \(environment.map { "'\($0)'" } ?? "NULL"), '\(delivery)', "
                    + (end.map { "now() + interval '\($0) s'" } ?? "NULL::timestamptz"))
        case .cancel: return ""
        }
    }

    /// Cancels and writes down what was said and when; nothing when there is nothing to cancel.
    func cancel(ofBroadcast: Bool) async throws -> Deeds.Cancel? {
        let done = deeds.cancels.map { "\($0.notification)" }.joined(separator: ",")
        let order = ofBroadcast ? "broadcast DESC, id DESC" : "broadcast, id"
        let found = try await insist(
            "SELECT id FROM scheduled_notifications WHERE id <> ALL ('{\(done)}') AND finished_at IS NULL ORDER BY \(order) LIMIT 1"
        )
        guard let id = found.first?.first.flatMap({ $0 }).flatMap(Int.init) else { return nil }
        return try await cancel(id)
    }

    /// Cancels a notification and writes down what was said and when.
    func cancel(_ id: Int) async throws -> Deeds.Cancel? {
        guard let answer = try await insist("SELECT cancel_notification(\(id))").first?.first ?? nil else { return nil }
        let cancel = Deeds.Cancel(notification: id, answer: answer, returned: Clock.now)
        record { $0.cancels.append(cancel) }
        return cancel
    }

    /// Finds out whether the workers could hear of a cancel: nothing was wrong when it returned and for some seconds after.
    private func listen(to cancel: Deeds.Cancel?) async throws {
        guard let cancel else { return }
        var isHeard = presentTroubles.isEmpty
        for _ in 1...20 {
            try await pass(.milliseconds(250))
            isHeard = isHeard && presentTroubles.isEmpty
        }
        guard isHeard else { return }
        record { deeds in
            for index in deeds.cancels.indices where deeds.cancels[index].notification == cancel.notification {
                deeds.cancels[index].isHeard = true
            }
        }
    }
}
