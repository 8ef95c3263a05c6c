// The file that PGPUSH_CONFIG names, for processes that serve several apps:
//
//     {
//       "key_path": "AuthKey_ABC123DEFG.p8", "key_id": "ABC123DEFG", "team_id": "DEF123GHIJ",
//       "apps": [
//         { "name": "shop", "bundle_id": "com.example.shop", "max_lateness": "2h" },
//         { "name": "news", "bundle_id": "com.example.news", "key_path": "/etc/pgpush/other.p8", … }
//       ]
//     }
//
// What stands beside "apps" holds for every app that does not say otherwise. Read strictly: a name that is not known is a mistake,
// since a misspelt setting that is passed over does its harm much later. Secrets are named by path and do not stand in it.

import APNs
import PushModel
import PushStore

/// What the configuration file says, as it stands there.
struct ConfigurationFile: Equatable {
    /// The settings of one app, by key.
    struct App: Equatable {
        let name: String
        let settings: [String: Setting]
        /// What it says for one environment alone.
        let environments: [PushEnvironment: [String: Setting]]
    }

    /// The text of a setting and what to call it in a message.
    struct Setting: Equatable {
        let text: String
        let place: String
    }

    let path: String
    let apps: [App]
    /// What holds for all apps.
    let shared: [String: Setting]

    /// What a setting that is not there would be called.
    func place(_ key: String, app: String) -> String { "PGPUSH_CONFIG (\(path)): \(key) of app \"\(app)\"" }

    // MARK: Keys

    /// Keys that may stand beside `apps` and in an app.
    static let sharedKeys = [
        "key_path", "key_id", "team_id", "max_lateness", "production_url", "sandbox_url", "manage_url", "broadcast_url",
        "proxy_url", "ca_path",
    ]
    /// Keys of an app.
    ///
    /// A certificate is for one.
    static let appKeys = ["name", "bundle_id", "cert_path", "cert_password_path"] + sharedKeys
    /// Keys of an environment of an app: credentials that are good for one only, and the hosts of its channels.
    static let environmentKeys = [
        "key_path", "key_id", "team_id", "cert_path", "cert_password_path", "manage_url", "broadcast_url",
    ]
    /// Files, named from where the configuration file lies.
    private static let pathKeys: Set = ["key_path", "cert_path", "cert_password_path", "ca_path"]

    // MARK: Reading

    /// Reads and checks the file; what its settings mean, others find out.
    init(path: String) throws(ConfigurationError) {
        // Whatever was put there instead of a path, nobody is shown it.
        guard !SettingText.looksLikeKey(path), !path.contains("{") else {
            throw ConfigurationError(
                variable: "PGPUSH_CONFIG", problem: "holds a text instead of a path",
                remedy: "put the text into a file and name that")
        }
        let text: String
        do {
            // A hyphen is a name like any other here.
            text = try InputFile.read(path == "-" ? "./-" : path, for: "PGPUSH_CONFIG")
        } catch {
            throw ConfigurationError(
                variable: "PGPUSH_CONFIG", problem: "names \(path), which cannot be read: \(Self.words(error))",
                remedy: "name a file that this user may read, or unset it and configure one app by APNS_* variables")
        }
        try self.init(text, path: path)
    }

    private static func words(_ error: any Error) -> String {
        switch error {
        case let failure as CommandFailure: failure.message.split(separator: ": ").last.map(String.init) ?? ""
        case let mistake as UsageError: mistake.message.split(separator: ": ").last.map(String.init) ?? ""
        default: "\(error)"
        }
    }

    /// Reads the text of a file that lies at `path`.
    init(_ text: String, path: String) throws(ConfigurationError) {
        var reading = Reading(path: path)
        do throws(JSONFault) {
            try reading.read(try JSONReader.read(Array(text.utf8)))
        } catch {
            throw ConfigurationError(
                variable: "PGPUSH_CONFIG", problem: "(\(path)), line \(error.line): \(error.problem)",
                remedy: "see 'Several apps' in deploy/README.md")
        }
        self.path = path
        apps = reading.apps
        shared = reading.shared
    }

    /// The file being read.
    private struct Reading {
        let path: String
        var apps: [App] = []
        var shared: [String: Setting] = [:]
        private var lines: [String: Int] = [:]

        init(path: String) { self.path = path }

        mutating func read(_ node: JSONNode) throws(JSONFault) {
            guard case .object(let members) = node.value else {
                throw JSONFault(line: node.line, problem: "the file must hold an object, not \(node.kind)")
            }
            let list = members.first { $0.key == "apps" }
            guard let list, case .array(let nodes) = list.node.value, !nodes.isEmpty else {
                throw JSONFault(
                    line: list?.line ?? node.line, problem: "\"apps\" must be there and be a list of at least one app")
            }
            shared = try settings(members.filter { $0.key != "apps" }, sharedKeys, "beside \"apps\"") {
                "PGPUSH_CONFIG (\(path)): \($0)"
            }
            for node in nodes { try add(node) }
        }

        private mutating func add(_ node: JSONNode) throws(JSONFault) {
            guard case .object(let members) = node.value else {
                throw JSONFault(line: node.line, problem: "an app must be an object, not \(node.kind)")
            }
            guard let member = members.first(where: { $0.key == "name" }) else {
                throw JSONFault(line: node.line, problem: "the app that begins here has no \"name\"")
            }
            let name = try Self.text(member)
            guard name.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7f }), name.utf8.count <= 200
            else {
                throw JSONFault(
                    line: member.line, problem: "\"name\" must be what stands in the column app, at most 200 bytes")
            }
            if let line = lines[name] {
                throw JSONFault(
                    line: member.line, problem: "app \"\(name)\" stands here a second time (first on line \(line))")
            }
            lines[name] = member.line
            let path = path
            var environments: [PushEnvironment: [String: Setting]] = [:]
            for member in members {
                guard let environment = PushEnvironment(rawValue: member.key) else { continue }
                environments[environment] = try own(member, of: name)
            }
            let plain = members.filter { $0.key != "name" && PushEnvironment(rawValue: $0.key) == nil }
            let settings = try settings(plain, appKeys, "in an app") {
                "PGPUSH_CONFIG (\(path)): \($0) of app \"\(name)\""
            }
            apps.append(App(name: name, settings: settings, environments: environments))
        }

        /// What stands under `production` or `sandbox` of an app.
        private func own(_ member: JSONMember, of app: String) throws(JSONFault) -> [String: Setting] {
            guard case .object(let members) = member.node.value, !members.isEmpty else {
                throw JSONFault(
                    line: member.node.line,
                    problem: "\"\(member.key)\" must be an object with a key or a certificate, not \(member.node.kind)")
            }
            let path = path
            return try settings(members, environmentKeys, "under \"\(member.key)\"") {
                "PGPUSH_CONFIG (\(path)): \($0) under \"\(member.key)\" of app \"\(app)\""
            }
        }

        private func settings(
            _ members: [JSONMember], _ known: [String], _ place: String, naming: (String) -> String
        ) throws(JSONFault) -> [String: Setting] {
            var settings: [String: Setting] = [:]
            for member in members {
                guard known.contains(member.key) else { throw Self.unknown(member, known, place) }
                var text = try Self.text(member)
                if pathKeys.contains(member.key), !text.hasPrefix("/"), let end = path.lastIndex(of: "/") {
                    text = path[...end] + text
                }
                settings[member.key] = Setting(text: text, place: naming(member.key))
            }
            return settings
        }

        private static func unknown(_ member: JSONMember, _ known: [String], _ place: String) -> JSONFault {
            if ["cert_password", "password"].contains(member.key) {
                return JSONFault(
                    line: member.line,
                    problem: "a password does not belong into this file: name its file by \"cert_password_path\"")
            }
            if ["key", "key_text", "private_key"].contains(member.key) {
                return JSONFault(
                    line: member.line, problem: "a key does not belong into this file: name its file by \"key_path\"")
            }
            let meant = Suggestion.nearest(to: member.key, among: known).map { ", did you mean \"\($0)\"?" }
            let hint = meant ?? "; known are \(known.joined(separator: ", "))"
            return JSONFault(
                line: member.line,
                problem: "\(JSONMember.shown(member.key)) is not known \(place)\(hint)")
        }

        private static func text(_ member: JSONMember) throws(JSONFault) -> String {
            guard case .text(let text) = member.node.value, text.contains(where: { !$0.isWhitespace }) else {
                let kind = if case .text = member.node.value { "an empty text" } else { member.node.kind }
                throw JSONFault(
                    line: member.node.line, problem: "\"\(member.key)\" must be a text in quotes, not \(kind)")
            }
            return text
        }
    }
}
