// doctor: looks at everything a worker depends on and says what to do about what is not well. It sends nothing and changes
// nothing.

import PushStore

extension Verb {
    static let doctor = Verb(
        name: "doctor",
        summary: "checks database, schema, roles, key, clocks, trust store and reachability; sends nothing",
        details: """
            Each check is ok, warn or fail, with a remedy. Exit code 0 without a failure, else 4 for configuration and
            credentials, 5 for the database, 6 for Apple's service.
            """,
        options: [.schema, .json],
        examples: [
            Example("pgpush doctor", "before the first worker is started"),
            Example("pgpush doctor --json", "a line for each check, for monitoring"),
        ]
    ) { call in
        let checks = Doctor(call: call).run { check in
            if call.wantsJSON { return call.console.data(check.json.line) }
            let style = call.console.style
            let state = style.paint(check.state.rawValue, Style.ink(ofStatus: check.state.rawValue))
            let padding = String(repeating: " ", count: 6 - check.state.rawValue.count)
            call.console.data("\(state)\(padding)\(check.name): \(DisplayText.cleaned(check.message))")
            if let remedy = check.remedy { call.console.data("      → \(DisplayText.cleaned(remedy))") }
        }
        return Check.exitCode(checks)
    }
}
