// devices register, deactivate, list.

import PushStore

extension Verb {
    static let devicesRegister = Verb(
        name: "devices register", summary: "registers a device, or moves its token to a new owner; prints its id",
        options: [
            .owner, .token, .app, .environment, .platform, .appVersion, .osVersion, .locale, .timeZone, .schema, .json,
        ],
        examples: [
            Example("pgpush devices register --user 42 --token 00fc13adff78…", "a device in the default environment"),
            Example("pgpush devices register --user 42 --token $TOKEN --environment sandbox", "a development build"),
        ]
    ) { call in
        var arguments = NamedArguments()
        arguments.add("user_id", try call.required(.owner))
        arguments.add("device_token", try call.required(.token))
        for (option, name) in [
            (Option.app, "app"), (.environment, "environment"), (.platform, "platform"), (.appVersion, "app_version"),
            (.osVersion, "os_version"), (.locale, "locale"), (.timeZone, "time_zone"),
        ] { arguments.add(name, call.arguments.text(option)) }
        let device = arguments
        let id = try call.withStore { store in try await store.register(device) }
        call.console.data(call.wantsJSON ? JSON.object([("id", .integer(id))]).line : String(id))
        return .done
    }

    static let devicesDeactivate = Verb(
        name: "devices deactivate", summary: "retires a device; nothing is sent to it until it is registered again",
        options: [.owner, .token, .app, .schema, .json],
        examples: [Example("pgpush devices deactivate --user 42 --token $TOKEN", "when a user signs out")]
    ) { call in
        var arguments = NamedArguments()
        arguments.add("user_id", try call.required(.owner))
        arguments.add("device_token", try call.required(.token))
        arguments.add("app", call.arguments.text(.app))
        let device = arguments
        let wasActive = try call.withStore { store in try await store.unregister(device) }
        if call.wantsJSON { call.console.data(JSON.object([("deactivated", .bool(wasActive))]).line) }
        if !wasActive { call.console.note("no active device matches") }
        return wasActive ? .done : .nothingMatched
    }

    static let devicesList = Verb(
        name: "devices list", summary: "lists devices in the order of their ids",
        options: [.userFilter, .app, .environment, .active, .inactive, .limit, .above, .schema, .json],
        examples: [
            Example("pgpush devices list --user 42", "the devices of a user"),
            Example("pgpush devices list --inactive --limit 200", "retired devices, with the reason"),
        ]
    ) { call in
        var filter = DeviceFilter()
        filter.app = call.arguments.text(.app)
        filter.userID = call.arguments.text(.userFilter)
        filter.environment = try call.arguments.choice(.environment, ["production", "sandbox"])
        if call.arguments.has(.active) != call.arguments.has(.inactive) {
            filter.isActive = call.arguments.has(.active)
        }
        filter.above = try call.arguments.integer(.above, 1...Int.max).map(Int64.init)
        filter.limit = try call.arguments.integer(.limit, 1...10_000) ?? filter.limit
        let wanted = filter
        let report = try call.withStore { store in try await store.devices(wanted) }
        return call.showPage(report, limit: wanted.limit, next: "--above")
    }
}

extension Option {
    static let owner = Option("user", letter: "u", value: "ID", "the user the device belongs to")
    static let token = Option("token", letter: "t", value: "HEX", "the token the device got from Apple")
    static let platform = Option("platform", value: "NAME", "platform (ios)")
    static let appVersion = Option("app-version", value: "TEXT", "version of the app")
    static let osVersion = Option("os-version", value: "TEXT", "version of the system")
    static let locale = Option("locale", value: "NAME", "language and region")
    static let timeZone = Option("time-zone", value: "NAME", "zone, such as Europe/Berlin")
    static let active = Option("active", "only devices that are sent to")
    static let inactive = Option("inactive", "only retired devices")
}
