// The one way in which verbs ask something of Apple: one app's credential, a loop and a connection of their own, everything closed
// afterwards. The database has no part in it.

import APNs
import PushModel
import PushStore
import Reactor
import TLS

/// An app in one environment, with all that is needed to speak for it.
struct AppleAccess: Sendable {
    let app: AppSettings
    let environment: PushEnvironment
    let credential: APNsCredential
    let context: TLSClientContext
    /// How long an answer is waited for.
    let patience: Duration

    /// Reads --app, --sandbox and --timeout, and loads the credential of that app alone.
    init(_ call: Invocation) throws {
        environment = call.arguments.has(.sandbox) ? .sandbox : .production
        patience = .seconds(try call.arguments.integer(.timeout, 1...120) ?? 15)
        app = try Self.draft(call).load()
        guard let credential = app.credentials[environment] else {
            throw CommandFailure(
                .configuration, "app \(app.name) has no credential for \(environment.rawValue)",
                hint: environment == .production
                    ? "say --sandbox, or configure one" : "leave out --sandbox, or configure one")
        }
        self.credential = credential
        context = try app.trust.load(credential.certificate?.identity)
    }

    /// The app that is named; without a name `default`, or the only one there is.
    private static func draft(_ call: Invocation) throws -> AppDraft {
        let drafts = try PushSettings.drafts(call.environment)
        let named = call.arguments.text(.asApp)
        if named == nil, drafts.count == 1, let only = drafts.first { return only }
        let wanted = named ?? "default"
        if let found = drafts.first(where: { $0.name == wanted }) { return found }
        let names = drafts.map(\.name).joined(separator: ", ")
        throw CommandFailure(
            .configuration,
            named == nil ? "several apps are configured and none is named default" : "no app \(wanted) is configured",
            hint: "name one by --app: \(names)")
    }

    /// Runs `body` with a caller to `endpoint`, on a loop that lives as long as the call.
    func call<T: Sendable>(
        _ kind: SingleCaller.Kind, at endpoint: APNsEndpoint,
        _ body: @escaping @Sendable (SingleCaller) async throws -> T
    ) throws -> T {
        let loop = try EventLoop(name: "pgpush")
        try loop.start()
        defer {
            loop.stop()
            loop.join()
        }
        return try loop.runBlocking { _ in
            let caller = try self.caller(kind, endpoint, loop)
            defer { caller.close() }
            return try await body(caller)
        }
    }

    private func caller(
        _ kind: SingleCaller.Kind, _ endpoint: APNsEndpoint, _ loop: EventLoop
    ) throws(CommandFailure) -> SingleCaller {
        do throws(APNsError) {
            return try SingleCaller(
                kind, to: endpoint, through: app.proxy, as: credential, tls: context, loop: loop)
        } catch {
            throw CommandFailure(error)
        }
    }
}

extension APNsReply {
    /// What Apple has said, in a few words.
    var summary: String { reason.isEmpty ? "\(status)" : "\(status) \(reason)" }

    /// What it means, and what to do about it.
    var advice: AnswerAdvice { .of(status: status, reason: reason) }

    /// The exit code of a verb whose request was refused so: 403 is about who asks.
    var exitCode: ExitCode { status == 403 ? .configuration : .pushServiceUnreachable }
}

extension APNsSilence {
    /// The exit code of a verb that got no answer.
    var exitCode: ExitCode { isCredential ? .configuration : .pushServiceUnreachable }
}

extension Option {
    static let sandbox = Option("sandbox", "the development environment instead of production")
    static let timeout = Option("timeout", value: "SECONDS", "how long to wait for an answer (15)")
    /// Which app's credential is used.
    static let asApp = Option("app", value: "NAME", "the app whose key or certificate is used (default)")
}
