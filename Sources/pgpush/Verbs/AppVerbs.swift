// apps list, pause, resume.

import PushStore

extension Verb {
    static let appsList = Verb(
        name: "apps list", summary: "lists the apps with their devices, due notifications and pauses",
        options: [.schema, .json],
        examples: [Example("pgpush apps list", "what is served and what is paused")]
    ) { call in
        let report = try call.withStore { store in try await store.apps() }
        return call.showPage(report, limit: Int.max, next: "")
    }

    static let appsPause = Verb(
        name: "apps pause", summary: "stops sending for an app until it is resumed", operands: "APP",
        operandCount: 1...1, options: [.environment, .reason, .schema, .json],
        examples: [
            Example("pgpush apps pause default --reason 'bad release'", "keeps everything of the app pending"),
            Example("pgpush apps pause default --environment sandbox", "only what goes to development builds"),
        ]
    ) { call in
        let (app, environment) = try call.scope()
        let reason = call.arguments.text(.reason)
        let changed = try call.withStore { store in
            try await store.pause(app: app, environment: environment, reason: reason)
        }
        return call.tell(changed, done: "\(app) is paused", otherwise: "\(app) was paused already", code: .done)
    }

    static let appsResume = Verb(
        name: "apps resume", summary: "sends again for an app that was paused", operands: "APP", operandCount: 1...1,
        options: [.environment, .schema, .json],
        examples: [Example("pgpush apps resume default", "what is due goes out at once")]
    ) { call in
        let (app, environment) = try call.scope()
        let changed = try call.withStore { store in try await store.resume(app: app, environment: environment) }
        return call.tell(changed, done: "\(app) is resumed", otherwise: "\(app) was not paused", code: .nothingMatched)
    }
}

extension Invocation {
    fileprivate func scope() throws -> (String, String?) {
        (arguments.operands[0], try arguments.choice(.environment, ["production", "sandbox"]))
    }

    fileprivate func tell(_ changed: Bool, done: String, otherwise: String, code: ExitCode) -> ExitCode {
        if wantsJSON { console.data(JSON.object([("changed", .bool(changed))]).line) }
        console.note(changed ? done : otherwise)
        return changed ? .done : code
    }
}

extension Option {
    static let reason = Option("reason", value: "TEXT", "why, for those who wonder")
}
