// The text of `--help`, made from the tables of options, switches, commands and magic tokens.

/// What `--help` prints.
package enum HelpText {
    /// The whole text.
    package static var whole: String {
        [
            usage, heading("Options", options), heading("Weather: options at the start, set NAME VALUE later", weather),
            heading("Control commands (--control-stdin, --control-socket)", commands), controlNotes,
            heading("Magic device tokens: \(MagicToken.prefix), four digits, then any digits up to 64", magic),
            heading(
                "Reasons: the magic tokens that bring one to a push; the command brings it to any request", reasons),
            behaviour,
            journal, examples,
        ].joined(separator: "\n")
    }

    private static let usage = """
        apns-simulator [options]

        A double of Apple's push service for tests: HTTP/2 over TLS, provider tokens (JWT) checked, requests checked, answers
        and stream limits as Apple's. It makes its own CA, server certificate and .p8 key, so that no Apple account is needed.
        When it listens it prints one line on stdout:

          apns-simulator ready production=https://127.0.0.1:2197 sandbox=https://127.0.0.1:2198 manage=… sandbox-manage=… pid=4711

        """

    private static let controlNotes = """
          One command a line. A command may begin with #TAG and a blank; its answer then begins so too. Answers begin with ok or
          error. Without a number, goaway, close, abort, finish, alert and mute mean all open
          connections.

        """

    private static let behaviour = """
        Answers
          200 with the apns-id of the request, or one of its own; apns-unique-id on the sandbox. A device token of 64 to 512
          hexadecimal digits that is not magic is accepted. Checked in this order: method, path, repeated headers, provider token
          (signature, team, age of an hour at most, key's environment, key and token changes on the connection; or a client
          certificate), apns-id,
          expiration, push type, priority, collapse id, topic, device token, body. A topic must be a registered bundle id with the
          suffix of the push type; one with the wrong suffix is DeviceTokenNotForTopic. A body that is not a JSON object is
          PayloadEmpty. What Apple would accept and then may not deliver stands as warnings in the journal; --strict refuses it.
          One stream until the first valid provider token, then 1000; 1 after a 4xx other than 410, until the next 200.
          After ExpiredProviderToken or TooManyProviderTokenUpdates a connection stays wedged.

        Channels
          POST, GET, DELETE /1/apps/<bundle id>/channels and GET /1/apps/<bundle id>/all-channels are answered on the same ports as
          pushes, or with --manage-port only there, each environment for itself (APNS_MANAGE_URL of --print-env is production's).
          Ids follow from the seed; apns-request-id is echoed, or made. A push
          to /4/broadcasts/apps/<bundle id> is accepted when its channel exists: MissingChannelId, BadChannelId,
          ChannelNotRegistered; TopicDisallowed for a bundle id with a suffix, TopicMismatch for one that is not registered;
          BadExpirationDate when a channel without storage is sent anything but apns-expiration 0; at most 5120 bytes;
          BadRequestPayload for a body that is no JSON object, and for one that would start an activity.

        Client certificates
          One from this CA (--auth certificate, --issue) takes the place of provider tokens: authorization is not looked at, and
          there are 1000 streams from the start. Topics and environments stand in it as in Apple's own: MissingTopic without
          apns-topic, unless there is but one; TopicDisallowed for one that is not listed, and for location, which needs a
          token; BadCertificateEnvironment. One that has expired, or is from elsewhere, ends the TLS handshake by an alert.
          Unless topics are named, those of all push types of the app are listed but location. MDM has certificates of its own:
          --issue name=mdm,topics=com.apple.mgmt.External.1234.

        """

    private static let journal = """
        Journal: one JSON object a line; times in nanoseconds (mono: CLOCK_BOOTTIME, wall: since 1970)
          {"event":"opened","mono":…,"wall":…,"connection":1,"environment":"production","certificate":"<fingerprint>"}
          {"event":"request", … ,"stream":1,"received":…,"attempt":1,"token":"…","apns_id":"…","method":"POST","path":"…",
           "headers":{"apns-topic":"…"},"authorization":"<fingerprint>","warnings":["…"],"body_length":99,"body":"…",
           "outcome":"answered","status":200,"reason":"","answer_id":"…"}      for channels also answer_request_id,
                                                                               answer_channel_id of one that was made
          {"event":"held", …}      a request that is answered later or never; its request line follows
          {"event":"goaway", … ,"last_stream":1,"code":0,"debug":"…"}   {"event":"closed", … ,"requests":1,"cause":"…"}
          {"event":"control", … ,"command":"…"}
          outcome: answered · reset, refused, cut off (our fault) · abandoned (the sender's reset) · lost (connection ended)
          attempt: which request for its device token it is, from 1; 0: it came after a GOAWAY and was not looked at
          A line is in the file before its answer is sent. SIGUSR1 prints the counts on stderr, and so does the end.

        """

    private static let examples = """
        Examples
          apns-simulator --port 0 --sandbox-port 0 --ca-dir /tmp/sim --print-env /tmp/sim/env --journal /tmp/sim/journal
          set -a; . /tmp/sim/env; set +a; pgpush worker
          apns-simulator --latency-ms 20 --gone-share 0.01 --seed 7
          apns-simulator --control-socket /tmp/sim.sock &  echo "set error-share 0.5" | nc -U -q1 /tmp/sim.sock

        Exit codes: 0 ended by a signal or by quit · 1 failed · 2 usage
        """

    // MARK: Tables

    private static func heading(_ title: String, _ rows: [(String, String)]) -> String {
        "\(title)\n" + rows.map(row).joined(separator: "\n") + "\n"
    }

    private static func row(_ left: String, _ right: String) -> String {
        let width = 34
        if left.count < width { return "  " + left + String(repeating: " ", count: width - left.count) + " " + right }
        return "  \(left)\n" + String(repeating: " ", count: width + 3) + right
    }

    private static var options: [(String, String)] {
        SimulatorOption.table.map { ("--\($0.name)" + ($0.argument.map { " " + $0 } ?? ""), $0.summary) }
            + [("--help, --version", "print and end")]
    }

    private static var weather: [(String, String)] {
        WeatherSetting.table.map { ("--\($0.name) \($0.argument)", "\($0.summary) (\($0.show(Weather())))") }
    }

    private static var commands: [(String, String)] { ControlCommand.manual }

    private static var reasons: [(String, String)] {
        Rejection.all.map { rejection in
            let digits = MagicToken.table.filter { magic in
                if case .answer(let answer) = magic.decision { answer.rejection == rejection } else { false }
            }.map(\.digits)
            let command = "set answer-all \(rejection.status):\(rejection.reason)"
            return (
                "\(rejection.status) \(rejection.reason)",
                command + (digits.isEmpty ? "" : "  · " + digits.joined(separator: " "))
            )
        }
    }

    private static var magic: [(String, String)] { MagicToken.table.map { ($0.digits, $0.summary) } }
}
