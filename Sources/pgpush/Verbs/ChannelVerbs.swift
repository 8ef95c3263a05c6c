// channels create, read, list, delete: the broadcast channels of an app, which live at Apple's and nowhere else.

import APNs
import PushModel
import PushStore

extension Verb {
    private static let common: [Option] = [.asApp, .sandbox, .timeout, .json]

    static let channelsCreate = Verb(
        name: "channels create", summary: "makes a broadcast channel; prints its id",
        details: """
            --storage says what Apple keeps for devices that are offline, and is settled for good: 'latest', or 'none', which
            allows more pushes but takes only those with store_if_offline = false. Store the id: it is the channel_id of
            notifications. An app has at most 10,000 channels in each environment.
            """,
        options: [.storage] + common,
        examples: [
            Example("pgpush channels create", "a channel that keeps the latest update for eight hours at most"),
            Example("pgpush channels create --sandbox --storage none", "for development builds; nothing is kept"),
            Example("id=$(pgpush channels create --app news)", "for a script; messages go to standard error"),
        ]
    ) { call in
        let storage = try call.arguments.choice(.storage, ChannelStorage.allCases.map(\.word))
        let policy = ChannelStorage.allCases.first { $0.word == storage } ?? .latest
        let desk = try ChannelDesk(call)
        guard let exchange = try desk.ask([.create(policy)]).first else { return .failed }
        guard case .created(let id) = try exchange.result.get() else { return .failed }
        call.console.data(
            call.wantsJSON
                ? JSON.object([
                    ("id", .string(id)), ("storage", .string(policy.word)), ("app", .string(desk.access.app.name)),
                    ("bundle_id", .string(desk.bundleID)), ("environment", .string(desk.access.environment.rawValue)),
                    ("request_id", .string(exchange.requestID)),
                ]).line : id)
        call.console.note(
            "a channel of \(desk.bundleID) in \(desk.access.environment.rawValue), storage \(policy.word); request id \(exchange.requestID)"
        )
        return .done
    }

    static let channelsRead = Verb(
        name: "channels read", summary: "shows what channels are like", operands: "ID...", operandCount: 1...10_000,
        details: "Exit code 3 when Apple does not know one of them.", options: common,
        examples: [
            Example("pgpush channels read dHN0LXNyY2gtY2hubA==", "its storage and push type"),
            Example("pgpush channels list | xargs pgpush channels read --json", "all of them, a line for each"),
        ]
    ) { call in
        let exchanges = try ChannelDesk(call).ask(call.arguments.operands.map(ChannelRequest.read))
        var rows: [[String?]] = []
        for exchange in exchanges {
            guard case .read(let id) = exchange.request, case .success(.described(let channel)) = exchange.result else {
                continue
            }
            rows.append([id, channel.storage?.word ?? "unknown", channel.pushType])
        }
        let names = ["id", "storage", "push_type"]
        let lines = rows.map { row in
            JSON.object(zip(names, row).map { (key: $0, value: JSON.text($1)) }).line
        }
        call.show(Report(columns: names.map { ReportColumn($0) }, rows: rows, json: lines))
        return call.conclude(exchanges)
    }

    static let channelsList = Verb(
        name: "channels list", summary: "lists the ids of all channels of an app", options: common,
        examples: [
            Example("pgpush channels list", "one id a line"),
            Example("pgpush channels list --sandbox --app news", "those of development builds of another app"),
        ]
    ) { call in
        guard let exchange = try ChannelDesk(call).ask([.list]).first else { return .failed }
        guard case .listed(let ids) = try exchange.result.get() else { return .failed }
        call.console.data(call.wantsJSON ? ids.map { JSON.object([("id", .string($0))]).line } : ids)
        if ids.isEmpty { call.console.note("there are no channels") }
        return ids.isEmpty ? .nothingMatched : .done
    }

    static let channelsDelete = Verb(
        name: "channels delete", summary: "deletes channels for good", operands: "ID...", operandCount: 1...10_000,
        details: """
            Nothing brings a channel back, and whoever follows it hears no more. On a terminal it is asked first; elsewhere
            --yes must be said. Exit code 3 when Apple does not know one of them.
            """,
        options: [.yes] + common,
        examples: [
            Example("pgpush channels delete dHN0LXNyY2gtY2hubA==", "asks, then deletes it"),
            Example("pgpush channels delete --yes --sandbox $ID $OTHER", "in a script"),
        ]
    ) { call in
        let ids = call.arguments.operands
        let desk = try ChannelDesk(call)
        if !call.arguments.has(.yes) {
            guard call.console.canAsk else { throw UsageError("nothing brings a channel back: say --yes to delete") }
            let what = ids.count == 1 ? "1 channel" : "\(Numbers.grouped(Int64(ids.count))) channels"
            guard call.console.confirms("This deletes \(what) of \(desk.bundleID) for good. Go on?") else {
                call.console.note("nothing was deleted")
                return .failed
            }
        }
        let exchanges = try desk.ask(ids.map(ChannelRequest.delete)) { exchange in
            guard case .delete(let id) = exchange.request else { return }
            let word: String
            switch exchange.result {
            case .success: word = "deleted"
            case .failure(let failure) where failure.code == .nothingMatched: word = "not_found"
            case .failure: return
            }
            call.console.data(
                call.wantsJSON ? JSON.object([("id", .string(id)), ("result", .string(word))]).line : "\(id)  \(word)")
        }
        return call.conclude(exchanges)
    }
}

extension Invocation {
    /// Tells what went wrong, and answers with the exit code of the worst.
    fileprivate func conclude(_ exchanges: [ChannelExchange]) -> ExitCode {
        var code = ExitCode.done
        for exchange in exchanges {
            guard case .failure(let failure) = exchange.result else { continue }
            failure.lines(command: "pgpush \(verb.name)", style: console.noteStyle).forEach(console.note)
            code = failure.code
        }
        let left = arguments.operands.count - exchanges.count
        if left > 0 { console.note("the rest, \(Numbers.grouped(Int64(left))), was not tried") }
        return code
    }
}

/// A request and what came of it.
private struct ChannelExchange: Sendable {
    let request: ChannelRequest
    let requestID: String
    let result: Result<ChannelAnswer, CommandFailure>
}

/// Asks channel management on behalf of one app.
private struct ChannelDesk: Sendable {
    let access: AppleAccess
    var bundleID: String { access.app.credentials.bundleID }

    init(_ call: Invocation) throws { access = try AppleAccess(call) }

    /// Sends the requests one after the other over one connection; ends with the first that fails for another reason than that
    /// Apple does not know the channel, since the others would fail too.
    ///
    /// `ended` hears of each.
    func ask(
        _ requests: [ChannelRequest], _ ended: @escaping @Sendable (ChannelExchange) -> Void = { _ in }
    ) throws -> [ChannelExchange] {
        // What cannot be asked is found before anything is.
        for request in requests {
            do throws(APNsError) { _ = try request.head() } catch { throw UsageError("\(error)") }
        }
        return try access.call(.channels, at: access.app.hosts.management(access.environment)) { caller in
            var exchanges: [ChannelExchange] = []
            for request in requests {
                let exchange = try await ask(request, caller)
                exchanges.append(exchange)
                ended(exchange)
                if case .failure(let failure) = exchange.result, failure.code != .nothingMatched { break }
            }
            return exchanges
        }
    }

    private func ask(_ request: ChannelRequest, _ caller: SingleCaller) async throws -> ChannelExchange {
        let id = RandomID.make()
        guard let path = request.path(bundleID: bundleID) else {
            throw CommandFailure(.configuration, "\(bundleID) cannot stand in a path")
        }
        let answer = await caller.send(path: path, id: id, head: try request.head(), within: access.patience)
        let result: Result<ChannelAnswer, CommandFailure> =
            switch answer {
            case .success(let reply):
                ChannelAnswer(reply, to: request).map(Result.success) ?? .failure(refusal(reply, request, id))
            case .failure(let silence): .failure(failure(silence, request, id))
            }
        return ChannelExchange(request: request, requestID: id, result: result)
    }

    private func refusal(_ reply: APNsReply, _ request: ChannelRequest, _ id: String) -> CommandFailure {
        let detail = Self.detail(request, reply[ChannelRequest.idField] ?? id)
        guard reply.status >= 300 else {
            return CommandFailure(
                .pushServiceUnreachable, "the answer, with status \(reply.status), is not what Apple documents",
                detail: detail, hint: "check the host: something may answer in Apple's place")
        }
        let isUnknown =
            switch request {
            case .read, .delete: ["ChannelNotRegistered", "BadChannelId"].contains(reply.reason)
            case .create, .list: false
            }
        return CommandFailure(
            isUnknown ? .nothingMatched : reply.exitCode, "Apple refuses, \(reply.summary): \(reply.advice.meaning)",
            detail: detail, hint: reply.advice.remedy)
    }

    private func failure(_ silence: APNsSilence, _ request: ChannelRequest, _ id: String) -> CommandFailure {
        var hint = silence.remedy
        if silence.mayHaveArrived, request != .list {
            hint = "it is not known whether this was done: look by 'pgpush channels list' before doing it again"
        }
        return CommandFailure(silence.exitCode, silence.message, detail: Self.detail(request, id), hint: hint)
    }

    private static func detail(_ request: ChannelRequest, _ id: String) -> String {
        switch request {
        case .read(let channel), .delete(let channel): "channel \(channel), request id \(id)"
        case .create, .list: "request id \(id)"
        }
    }
}

extension Option {
    static let storage = Option("storage", value: "WHAT", "what Apple keeps: latest or none (latest)")
}
