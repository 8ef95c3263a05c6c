// The names under which the weather can be changed: `--NAME VALUE` at the start, `set NAME VALUE` afterwards. This
// table is the only place where a switch is named; options, control commands and `--help` are made from it.

/// One switch of the weather.
package struct WeatherSetting: Sendable {
    /// Such as `gone-share`.
    package let name: String
    /// What a value looks like: `MS`, `off|answer|silent`.
    package let argument: String
    /// What it does, for people.
    package let summary: String
    /// Puts a value, returns false when it cannot be read.
    package let apply: @Sendable (inout Weather, String) -> Bool
    /// The present value, as `apply` reads it.
    package let show: @Sendable (Weather) -> String

    /// The switch with this name.
    package static func named(_ name: String) -> WeatherSetting? { table.first { $0.name == name } }

    /// All switches, in the order of `--help`.
    package static let table: [WeatherSetting] = answers + streams + tokens + certificates + channels + connections

    private typealias Path<Value> = any WritableKeyPath<Weather, Value> & Sendable

    private static let answers: [WeatherSetting] = [
        milliseconds("latency-ms", \.latency, "every answer takes so long"),
        milliseconds("jitter-ms", \.jitter, "and up to so much longer, by chance"),
        rejection("answer-all", \.answerAll, "every request gets this, e.g. 403:InvalidProviderToken"),
        share("gone-share", \.goneShare, "so many device tokens are 410 Unregistered, always the same ones"),
        share("bad-token-share", \.badTokenShare, "so many device tokens are 400 BadDeviceToken, always the same ones"),
        share("throttled-share", \.throttledShare, "so many requests get 429 TooManyRequests"),
        share("error-share", \.errorShare, "so many requests get 500 InternalServerError"),
        share("silent-share", \.silentShare, "so many requests are never answered"),
        share("reset-share", \.resetShare, "so many requests get RST_STREAM INTERNAL_ERROR"),
        share("refused-share", \.refusedShare, "so many requests get RST_STREAM REFUSED_STREAM"),
        count("retry-after-s", \.retryAfter, "429 and 5xx say retry-after; 0 = they do not"),
        choice("gone-timestamp", \.goneTimestamp, "the timestamp of a 410"),
        choice("error-body", \.errorBody, "the body of a refusal"),
        choice("success", \.success, "the form of a 200"),
    ]

    private static let streams: [WeatherSetting] = [
        count("first-limit", \.levels.first, "streams until the first valid token"),
        count("stream-limit", \.levels.full, "streams in good times"),
        WeatherSetting(
            name: "narrowed-limit", argument: "N|off", summary: "streams from a rejection to the next success",
            apply: { weather, text in
                guard text == "off" || readCount(text) != nil else { return false }
                weather.levels.narrowed = readCount(text)
                return true
            },
            show: { $0.levels.narrowed.map(String.init) ?? "off" }),
        flag(
            "refuse-in-flight", \.refusesInFlight,
            "a falling limit resets what waits: REFUSED_STREAM, then STREAM_CLOSED"),
    ]

    private static let tokens: [WeatherSetting] = [
        seconds(
            "token-change-s", \.tokens.changeInterval,
            "a connection must keep its provider token so long; 0 = any change"),
        flag("token-change-shared", \.tokens.isChangeClockShared, "that clock runs for a whole environment"),
        flag("key-binding", \.tokens.bindsKeys, "a connection refuses keys that do not belong to its first one"),
        flag(
            "documented-key-reason", \.tokens.usesDocumentedEnvironmentReason,
            "BadEnvironmentKeyIdInToken instead of BadEnvironmentKeyInToken"),
        choice("wedge", \.wedge, "what follows an expired or too often changed provider token"),
        seconds("clock-offset-s", \.clockOffset, "the simulator's calendar is ahead by this (negative: behind)"),
    ]

    private static let certificates: [WeatherSetting] = [
        choice("client-certificate", \.face.clients, "what all client certificates are held to be"),
        choice(
            "bad-certificate-by", \.face.badCertificateBy,
            "how its owner learns it: TLS alert, GOAWAY or 403 BadCertificate"),
        choice(
            "wrong-environment-by", \.wrongEnvironmentBy,
            "how BadCertificateEnvironment is said: 403, or GOAWAY with last stream 0"),
    ]

    private static let channels: [WeatherSetting] = [
        flag("broadcast-feature", \.hasBroadcasts, "the apps may have channels; off: FeatureNotEnabled"),
        count("channel-limit", \.channelLimit, "channels of an app and environment; beyond: CannotCreateChannelConfig"),
    ]

    private static let connections: [WeatherSetting] = [
        WeatherSetting(
            name: "settings-ms", argument: "MS|never",
            summary: "the first SETTINGS frame comes so late, and nothing is read before",
            apply: { weather, text in
                guard let delay = text == "never" ? never : readDuration(text, unit: .milliseconds(1)) else {
                    return false
                }
                weather.settingsDelay = delay
                return true
            },
            show: { $0.settingsDelay == never ? "never" : showDuration($0.settingsDelay, unit: .milliseconds(1)) }),
        count("goaway-after", \.goAwayAfter, "each connection gets GOAWAY after so many requests; 0 = never"),
        choice("goaway-last", \.goAwayLast, "its last stream id"),
        count("goaway-code", \.goAwayCode, "its error code"),
        text("goaway-reason", \.goAwayReason, "its reason"),
        choice("goaway-body", \.goAwayBody, "its debug data"),
        flag("goaway-twice", \.goAwayTwice, "it comes twice"),
        choice("goaway-then", \.afterGoAway, "what the connection does afterwards"),
        count("close-after", \.closeAfter, "each connection is closed (TLS, FIN) after so many requests; 0 = never"),
        count("abort-after", \.abortAfter, "each connection is reset (RST) after so many requests; 0 = never"),
        count("finish-after", \.finishAfter, "each connection is closed (FIN) after so many requests; 0 = never"),
        count("alert-after", \.alertAfter, "each connection gets a fatal TLS alert after so many requests; 0 = never"),
        count("mute-after", \.muteAfter, "each connection goes dead, but open, after so many requests; 0 = never"),
        milliseconds("idle-ms", \.idleLimit, "idle connections get GOAWAY IdleTimeout after this; 0 = never"),
        choice("admission", \.admission, "what happens to new connections"),
        choice("certificate", \.face.certificate, "what new connections are shown"),
        choice("alpn", \.face.alpn, "what is agreed with new connections; http/1.1 is also spoken"),
    ]

    // MARK: Kinds of switches

    private static func count(_ name: String, _ path: Path<Int>, _ summary: String) -> WeatherSetting {
        make(name, "N", summary, path, read: readCount, show: String.init)
    }

    private static func share(_ name: String, _ path: Path<Double>, _ summary: String) -> WeatherSetting {
        make(
            name, "0…1", summary, path, read: { Double($0).flatMap { (0...1).contains($0) ? $0 : nil } },
            show: { "\($0)" })
    }

    private static func flag(_ name: String, _ path: Path<Bool>, _ summary: String) -> WeatherSetting {
        make(name, "on|off", summary, path, read: { ["on": true, "off": false][$0] }, show: { $0 ? "on" : "off" })
    }

    private static func text(_ name: String, _ path: Path<String>, _ summary: String) -> WeatherSetting {
        make(name, "TEXT", summary, path, read: { $0 }, show: { $0 })
    }

    private static func milliseconds(_ name: String, _ path: Path<Duration>, _ summary: String) -> WeatherSetting {
        make(
            name, "MS", summary, path,
            read: { readDuration($0, unit: .milliseconds(1)) }, show: { showDuration($0, unit: .milliseconds(1)) })
    }

    private static func seconds(_ name: String, _ path: Path<Duration>, _ summary: String) -> WeatherSetting {
        make(
            name, "S", summary, path,
            read: { readDuration($0, unit: .seconds(1), mayBeNegative: name == "clock-offset-s") },
            show: { showDuration($0, unit: .seconds(1)) })
    }

    private static func choice<Form: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String, _ path: Path<Form>, _ summary: String
    ) -> WeatherSetting {
        make(
            name, Form.allCases.map(\.rawValue).joined(separator: "|"), summary, path,
            read: { Form(rawValue: $0) }, show: { $0.rawValue })
    }

    private static func rejection(_ name: String, _ path: Path<Rejection?>, _ summary: String) -> WeatherSetting {
        make(
            name, "STATUS:REASON|off", summary, path,
            read: { $0 == "off" ? .some(nil) : readRejection($0).map(Optional.some) },
            show: { $0.map { "\($0.status):\($0.reason)" } ?? "off" })
    }

    private static func make<Value>(
        _ name: String, _ argument: String, _ summary: String, _ path: Path<Value>,
        read: @escaping @Sendable (String) -> Value?, show: @escaping @Sendable (Value) -> String
    ) -> WeatherSetting {
        WeatherSetting(
            name: name, argument: argument, summary: summary,
            apply: { weather, text in
                guard let value = read(text) else { return false }
                weather[keyPath: path] = value
                return true
            },
            show: { show($0[keyPath: path]) })
    }
}

/// A delay that does not end.
private let never = Duration.seconds(1_000_000_000)

private func readCount(_ text: String) -> Int? { Int(text).flatMap { $0 >= 0 && $0 <= Int(Int32.max) ? $0 : nil } }

private func readDuration(_ text: String, unit: Duration, mayBeNegative: Bool = false) -> Duration? {
    guard let number = Int(text), number.magnitude <= 1_000_000_000, number >= 0 || mayBeNegative else { return nil }
    return unit * number
}

private func showDuration(_ duration: Duration, unit: Duration) -> String { "\(Int((duration / unit).rounded()))" }

private func readRejection(_ text: String) -> Rejection? {
    let parts = text.split(separator: ":", maxSplits: 1)
    guard parts.count == 2, let status = Int(parts[0]), (400...599).contains(status),
        parts[1].utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C })
    else { return nil }
    return Rejection(status, String(parts[1]))
}
