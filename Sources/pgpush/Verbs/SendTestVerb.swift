// send-test: one push to one token, past the database, and all that Apple has to say about it. For the moment when a push does not
// arrive and the question is whether key, topic, environment or token is at fault.

import APNs
import PushModel
import PushStore
import Reactor
import Telemetry

extension Verb {
    static let sendTest = Verb(
        name: "send-test", summary: "sends one push to one token and prints Apple's answer",
        details: """
            Needs the key or certificate of an app and no database; nothing is stored, and no token is retired. Without --title,
            --body, --silent or --raw a short alert is sent. It expires after an hour. Exit code 0 when Apple has accepted the
            push, 4 when key or certificate are not accepted, 6 when the push is refused or nobody answers. Accepted means that
            Apple has taken it: whether it is shown is the device's affair (Focus, permissions, a wrong push type).
            """,
        options: [
            .token, .sandbox, .asApp, .testTitle, .testBody, .silent, .raw, .pushType, .topic, .testPriority,
            .collapseID, .timeout, .json,
        ],
        examples: [
            Example("pgpush send-test --token $TOKEN", "an alert to an app from the App Store or TestFlight"),
            Example("pgpush send-test --token $TOKEN --sandbox", "to a build from Xcode"),
            Example("pgpush send-test --token $TOKEN --silent", "wakes the app in the background"),
            Example(
                "pgpush send-test --token $TOKEN --push-type liveactivity --raw state.json",
                "a payload from a file, byte for byte"),
        ]
    ) { call in
        let push = try TestPush(call)
        let access = try AppleAccess(call)
        let report = try push.send(access)
        report.show(call)
        return report.exitCode
    }
}

/// What is sent.
private struct TestPush: Sendable {
    /// Long enough for a device that is not at hand, and no test should arrive next week.
    private static let lifetime: Int64 = 3600

    let token: String
    let pushType: PushType
    let priority: Int
    let topic: String?
    let collapseID: String?
    let payload: [UInt8]

    init(_ call: Invocation) throws {
        let arguments = call.arguments
        let text = try call.required(.token)
        do throws(APNsError) {
            token = try DeviceTokenText.normalised(text, named: "--token")
        } catch {
            throw UsageError(error.description)
        }
        let texts = [Option.testTitle, .testBody].contains(where: arguments.has)
        guard [texts, arguments.has(.silent), arguments.has(.raw)].count(where: \.self) <= 1 else {
            throw UsageError("--title and --body, --silent and --raw exclude each other")
        }
        let named = try arguments.choice(.pushType, PushType.allCases.map(\.rawValue)).flatMap(PushType.init)
        pushType = named ?? (arguments.has(.silent) ? .background : .alert)
        priority =
            try arguments.choice(.testPriority, ["10", "5", "1"]).flatMap { Int($0) }
            ?? (pushType == .background ? 5 : 10)
        topic = arguments.text(.topic)
        collapseID = arguments.text(.collapseID)
        if let file = arguments.text(.raw) {
            payload = Array(try InputFile.read(file, for: Option.raw.dashed).utf8)
        } else {
            payload = Array(try Self.payload(arguments, pushType).line.utf8)
        }
    }

    private static func payload(_ arguments: Arguments, _ type: PushType) throws(UsageError) -> JSON {
        let (title, body) = (arguments.text(.testTitle), arguments.text(.testBody))
        var alert: [(key: String, value: JSON)] = []
        if let title { alert.append(("title", .string(title))) }
        if let body { alert.append(("body", .string(body))) }
        if alert.isEmpty, type == .alert {
            alert = [("title", .string("pgpush")), ("body", .string("This is a test."))]
        }
        var aps: [(key: String, value: JSON)] = []
        if !alert.isEmpty { aps += [("alert", .object(alert)), ("sound", .string("default"))] }
        switch type {
        case .background: aps.append(("content-available", .integer(1)))
        case .widgets, .controls: aps.append(("content-changed", .bool(true)))
        case .mdm, .liveactivity, .accessory:
            throw UsageError("a push of type \(type.rawValue) has a payload of its own: give it by --raw")
        case .alert, .voip, .complication, .fileprovider, .location, .pushtotalk: break
        }
        return .object([("aps", .object(aps))])
    }

    /// Sends it.
    func send(_ access: AppleAccess) throws -> TestReport {
        let bundleID = access.app.credentials.bundleID
        let now = SystemClock.unixSeconds
        let content = PushContent(
            notificationID: 0, app: access.app.name, pushType: pushType, priority: priority, topic: topic,
            collapseID: collapseID, expiresAt: now + Self.lifetime, payload: payload)
        guard let path = APNsPath.device(token) else { throw UsageError("--token cannot stand in a path") }
        let id = RandomID.make()
        do throws(APNsError) {
            _ = try APNsRequestHeads.fields(content, bundleID: bundleID, now: now)
        } catch {
            throw UsageError(error.description)
        }
        let endpoint = access.app.hosts[access.environment]
        let result = try access.call(.push, at: endpoint) { caller in
            let head = try APNsRequestHeads(bundleID: bundleID).head(for: content, now: now)
            return await caller.send(path: path, id: id, head: head, within: access.patience)
        }
        return TestReport(
            result: result, id: id, environment: access.environment, endpoint: endpoint,
            topic: content.effectiveTopic(bundleID: bundleID) ?? "", pushType: pushType, bytes: payload.count)
    }
}

/// What came of it.
private struct TestReport: Sendable {
    let result: Result<APNsReply, APNsSilence>
    let id: String
    let environment: PushEnvironment
    let endpoint: APNsEndpoint
    let topic: String
    let pushType: PushType
    let bytes: Int

    var exitCode: ExitCode {
        switch result {
        case .success(let reply): reply.status == 200 ? .done : reply.exitCode
        case .failure(let silence): silence.exitCode
        }
    }

    /// One word for it.
    private var outcome: String {
        switch result {
        case .success(let reply): reply.status == 200 ? "accepted" : "rejected"
        case .failure(let silence): silence.mayHaveArrived ? "unknown" : "not_sent"
        }
    }

    private var reply: APNsReply? { try? result.get() }

    private var words: (meaning: String, remedy: String?) {
        switch result {
        case .success(let reply) where reply.status == 200:
            ("Apple has taken the push", "if nothing is shown, look at the device: permissions, Focus, the push type")
        case .success(let reply): (reply.advice.meaning, reply.advice.remedy)
        case .failure(let silence): (silence.message, silence.remedy)
        }
    }

    private var milliseconds: Int64? {
        reply.map { Int64($0.elapsed / .milliseconds(1)) }
    }

    func show(_ call: Invocation) {
        if call.wantsJSON { return call.console.data(json.line) }
        let style = call.console.style
        let rows: [(name: String, value: String?)] = [
            ("result", outcome), ("status", reply.map { String($0.status) }),
            ("reason", reply.flatMap { $0.reason.isEmpty ? nil : $0.reason }), ("meaning", words.meaning),
            ("what to do", words.remedy), ("dead since", reply?.timestamp.map(Self.moment)),
            ("retry after", reply?["retry-after"]), ("apns-id", reply?["apns-id"] ?? id),
            ("apns-unique-id", reply?["apns-unique-id"]), ("environment", environment.rawValue),
            ("host", endpoint.description), ("topic", topic), ("push type", pushType.rawValue),
            ("payload", "\(bytes) bytes"), ("time", milliseconds.map { "\($0) ms" }),
        ]
        call.console.data(Table.pairs(rows.filter { $0.value != nil }, style: style))
    }

    private var json: JSON {
        .object([
            ("result", .string(outcome)), ("status", reply.map { .integer(Int64($0.status)) } ?? .null),
            ("reason", .text(reply?.reason)), ("meaning", .string(words.meaning)), ("remedy", .text(words.remedy)),
            ("timestamp", reply?.timestamp.map(JSON.integer) ?? .null), ("retry_after", .text(reply?["retry-after"])),
            ("apns_id", .string(reply?["apns-id"] ?? id)), ("apns_unique_id", .text(reply?["apns-unique-id"])),
            ("environment", .string(environment.rawValue)), ("host", .string(endpoint.description)),
            ("topic", .string(topic)), ("push_type", .string(pushType.rawValue)),
            ("payload_bytes", .integer(Int64(bytes))), ("milliseconds", milliseconds.map(JSON.integer) ?? .null),
        ])
    }

    private static func moment(_ milliseconds: Int64) -> String {
        WallTime(seconds: milliseconds / 1000, milliseconds: Int32(milliseconds % 1000)).iso8601
    }
}

extension Option {
    fileprivate static let testTitle = Option("title", value: "TEXT", "first line of an alert")
    fileprivate static let testBody = Option("body", value: "TEXT", "the message of an alert")
    fileprivate static let silent = Option("silent", "nothing to show: the app is woken in the background")
    fileprivate static let raw = Option("raw", value: "FILE", "send this payload byte for byte; - is standard input")
    fileprivate static let pushType = Option("push-type", value: "TYPE", "what the push is for (alert)")
    fileprivate static let topic = Option("topic", value: "TEXT", "instead of the bundle id with its suffix")
    fileprivate static let testPriority = Option(
        "priority", value: "N", "10 at once, 5 when it suits, 1 never wakes (10)")
    fileprivate static let collapseID = Option("collapse-id", value: "ID", "replaces an earlier push of the same id")
}
