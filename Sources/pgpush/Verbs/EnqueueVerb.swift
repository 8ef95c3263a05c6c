// enqueue: one notification from the command line. Each option is a column a producer may set; the database checks them as it
// checks every producer's, so nothing is checked twice here.

import PushStore

extension Verb {
    static let enqueue = Verb(
        name: "enqueue", summary: "stores a notification to be sent when it is due; prints its id",
        details: """
            Exactly one target must be named: --user, --device-token, --broadcast or --channel. --data, --aps and
            --raw-payload take JSON, or @FILE to read it from a file (@- from standard input).
            TIME is \(TimeArgument.forms).
            On a terminal, --broadcast asks before it stores.
            """,
        options: [Option.user, .deviceToken, .broadcast, .channel] + ColumnOption.all.map(\.option)
            + [.at, .expires, .noStore, .mutableContent, .contentAvailable, .atMostOnce, .yes, .schema, .json],
        examples: [
            Example(
                "pgpush enqueue --user 42 --title 'Good morning' --body 'Your tea is ready'",
                "to all devices of a user, now"),
            Example(
                "pgpush enqueue --user 42 --user 43 --body Lunch --at 2026-03-08T12:00+01:00", "to two users, at noon"),
            Example(
                "pgpush enqueue --broadcast --title News --body '…' --at +10m --yes",
                "to every active device, in ten minutes"),
            Example("pgpush enqueue --user 42 --badge 0", "clears the badge"),
            Example(
                "pgpush enqueue --user 42 --push-type background --content-available --data '{\"sync\":1}'",
                "wakes the app"),
            Example(
                "pgpush enqueue --device-token $TOKEN --push-type liveactivity --aps @state.json",
                "updates a Live Activity"),
        ]
    ) { call in
        let target = try Target(call.arguments)
        var arguments = NamedArguments()
        target.add(to: &arguments)
        for column in ColumnOption.all { arguments.add(column.name, try column.value(call.arguments), as: column.type) }
        for (option, column, value) in ColumnOption.flags where call.arguments.has(option) {
            arguments.add(column, value, as: option == .atMostOnce ? "text" : "boolean")
        }
        let due = try call.arguments.time(.at)
        arguments.add("scheduled_at", due?.moment)
        arguments.add("expires_at", try call.arguments.time(.expires)?.moment)
        if target.isBroadcast, !(try call.mayBroadcast()) { return .failed }

        let notification = arguments
        let stored = try call.explainingJSON { store in
            let id = try await store.enqueue(notification)
            // A producer's role may not be allowed to read rows back; the id alone is a success too.
            return (id, try? await store.receipt(id))
        }
        call.report(stored.0, stored.1, zoneWasNamed: due?.namesZone ?? true)
        return .done
    }
}

extension Invocation {
    /// Runs `body` with a store; PostgreSQL does not say which of the values it could not read.
    fileprivate func explainingJSON<T: Sendable>(
        _ body: @escaping @Sendable (OperatorStore) async throws -> T
    ) throws -> T {
        do {
            return try withStore(body)
        } catch var failure as CommandFailure where failure.sqlState == "22P02" && failure.hint == nil {
            failure.hint = "--data, --aps and --raw-payload take JSON; put it into single quotes for the shell"
            throw failure
        }
    }

    /// Asks before a broadcast, if somebody is there to be asked.
    fileprivate func mayBroadcast() throws -> Bool {
        guard console.canAsk, !arguments.has(.yes) else { return true }
        var audience = NamedArguments()
        audience.add("app", arguments.text(.app))
        audience.add("broadcast", "true", as: "boolean")
        audience.add("environment", arguments.text(.environment))
        let everyone = audience
        let count = try withStore { store in try await store.audienceCount(everyone) }
        let devices = count == 1 ? "1 device" : "\(Numbers.grouped(count)) devices"
        if console.confirms("This goes to \(devices). Store it?") { return true }
        console.note("nothing was stored")
        return false
    }

    fileprivate func report(_ id: Int64, _ receipt: Report?, zoneWasNamed: Bool) {
        if wantsJSON {
            console.data(receipt?.json.first ?? JSON.object([("id", .integer(id))]).line)
            return
        }
        console.data(String(id))
        guard let receipt, let time = receipt.cell(0, "scheduled_at"), let status = receipt.cell(0, "status") else {
            return
        }
        let zone =
            zoneWasNamed ? "" : ", read in the database session's time zone \(receipt.cell(0, "time_zone") ?? "")"
        console.note("notification \(id) is \(status), due \(time)\(zone)")
    }
}

/// Whom a notification is for.
private struct Target {
    let users: [String]
    let tokens: [String]
    let channel: String?
    let isBroadcast: Bool

    init(_ arguments: Arguments) throws(UsageError) {
        users = arguments.texts(.user)
        tokens = arguments.texts(.deviceToken)
        channel = arguments.text(.channel)
        isBroadcast = arguments.has(.broadcast)
        let named = [!users.isEmpty, !tokens.isEmpty, channel != nil, isBroadcast].count { $0 }
        guard named == 1 else {
            let problem = named == 0 ? "no target" : "several targets"
            throw UsageError("\(problem): name one of --user, --device-token, --broadcast and --channel")
        }
    }

    func add(to arguments: inout NamedArguments) {
        if users.count == 1 { arguments.add("user_id", users[0]) } else { arguments.add("user_ids", users) }
        arguments.add("device_tokens", tokens)
        arguments.add("channel_id", channel)
        if isBroadcast { arguments.add("broadcast", "true", as: "boolean") }
    }
}

/// An option that fills a column of the same meaning.
private struct ColumnOption: Sendable {
    let option: Option
    /// The column, which is also the name of the function's argument.
    let name: String
    /// Its SQL type.
    var type = "text"

    static let all: [ColumnOption] = [
        ColumnOption(option: .app, name: "app"),
        ColumnOption(option: .environment, name: "environment"),
        ColumnOption(option: Option("title", value: "TEXT", "first line"), name: "title"),
        ColumnOption(option: Option("subtitle", value: "TEXT", "second line"), name: "subtitle"),
        ColumnOption(option: Option("body", value: "TEXT", "the message"), name: "body"),
        ColumnOption(
            option: Option("badge", value: "N", "number on the icon; 0 clears it"), name: "badge", type: "int"),
        ColumnOption(
            option: Option("sound", value: "NAME", "sound file; '' is silent, without it 'default' is played"),
            name: "sound"),
        ColumnOption(option: Option("category", value: "NAME", "category with its buttons"), name: "category"),
        ColumnOption(option: Option("thread-id", value: "ID", "group in the notification centre"), name: "thread_id"),
        ColumnOption(
            option: Option("target-content-id", value: "ID", "window to bring forward"), name: "target_content_id"),
        ColumnOption(
            option: Option("interruption-level", value: "LEVEL", "passive, active, time-sensitive or critical"),
            name: "interruption_level"),
        ColumnOption(
            option: Option("relevance-score", value: "N", "order in a summary, 0 to 1"), name: "relevance_score",
            type: "double precision"),
        ColumnOption(option: Option("data", value: "JSON", "custom keys beside 'aps'"), name: "data", type: "jsonb"),
        ColumnOption(option: Option("aps", value: "JSON", "further keys inside 'aps'"), name: "aps", type: "jsonb"),
        ColumnOption(
            option: Option("raw-payload", value: "JSON", "the whole payload, sent byte for byte"), name: "raw_payload",
            type: "json"),
        ColumnOption(
            option: Option("push-type", value: "TYPE", "alert, background, voip, liveactivity, … (alert)"),
            name: "push_type"),
        ColumnOption(
            option: Option("priority", value: "N", "10, 5 or 1 (5 for background, else 10)"), name: "priority",
            type: "smallint"),
        ColumnOption(option: Option("topic", value: "TOPIC", "instead of bundle id and suffix"), name: "topic"),
        ColumnOption(
            option: Option("collapse-id", value: "ID", "a later one replaces an earlier one on the screen"),
            name: "collapse_id"),
        ColumnOption(
            option: Option("idempotency-key", value: "KEY", "storing it again gives the same id"),
            name: "idempotency_key"),
    ]

    /// Options without a value, with the column they set and what they set it to.
    static let flags: [(Option, String, String)] = [
        (.noStore, "store_if_offline", "false"), (.mutableContent, "mutable_content", "true"),
        (.contentAvailable, "content_available", "true"), (.atMostOnce, "delivery", "at_most_once"),
    ]

    func value(_ arguments: Arguments) throws -> String? {
        switch type {
        case "int": return try arguments.integer(option, 0...Int(Int32.max)).map(String.init)
        case "smallint": return try arguments.integer(option, 1...10).map(String.init)
        case "double precision": return try arguments.number(option).map { String($0) }
        case "jsonb", "json":
            guard let text = arguments.text(option), text.hasPrefix("@") else { return arguments.text(option) }
            return try InputFile.read(String(text.dropFirst()), for: option.dashed)
        default: return arguments.text(option)
        }
    }
}

extension Option {
    static let user = Option("user", letter: "u", value: "ID", repeats: true, "to the devices of this user")
    static let deviceToken = Option("device-token", value: "HEX", repeats: true, "to this token, registered or not")
    static let broadcast = Option("broadcast", "to every active device of the app")
    static let channel = Option("channel", value: "ID", "to a broadcast channel")
    static let app = Option("app", value: "NAME", "name of the app (default)")
    static let environment = Option("environment", value: "NAME", "production or sandbox")
    static let at = Option("at", value: "TIME", "when it is due (now)")
    static let expires = Option("expires", value: "TIME", "not sent after this")
    static let noStore = Option("no-store", "Apple does not keep it for a device that is offline")
    static let mutableContent = Option("mutable-content", "an extension of the app may change it")
    static let contentAvailable = Option("content-available", "the app is woken in the background")
    static let atMostOnce = Option("at-most-once", "after a crash, doubtful devices are not tried again")
}
