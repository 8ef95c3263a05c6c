// The faults that can be switched on, at the start and in mid-flight. The plain weather is a faithful Apple in a
// good mood: every well-formed push is accepted at once, and the stream limit moves as Apple moves it.

/// What a simulator with a fault does to the senders; a value that start options and control commands change.
package struct Weather: Sendable {
    // MARK: Answers

    /// How long every answer takes.
    package var latency = Duration.zero
    /// How much longer it may take, by chance.
    package var jitter = Duration.zero
    /// What every request gets, whatever it is; nil: what it deserves.
    package var answerAll: Rejection?
    /// Shares of device tokens (the same ones every time) that are dead or bad.
    package var goneShare = 0.0
    package var badTokenShare = 0.0
    /// Shares of requests that meet a passing fault; another attempt rolls again.
    package var throttledShare = 0.0
    package var errorShare = 0.0
    package var silentShare = 0.0
    package var resetShare = 0.0
    package var refusedShare = 0.0
    /// Seconds for `retry-after` in 429 and 5xx; 0: no such header.
    package var retryAfter = 0
    /// What 410 says about the time, where it is not a magic token.
    package var goneTimestamp = TimestampForm.now
    /// What refusals and successes look like, where it is not a magic token.
    package var errorBody = ErrorBodyForm.json
    package var success = SuccessForm.plain

    // MARK: Streams and credentials

    /// The stream limits.
    package var levels = StreamLimit.Levels()
    /// Whether requests that wait for their answer are refused when the limit falls.
    package var refusesInFlight = false
    /// What a wedged connection does with further requests.
    package var wedge = WedgeForm.answer
    /// The rules for provider tokens.
    package var tokens = TokenPolicy()
    /// How far the simulator's calendar is ahead.
    package var clockOffset = Duration.zero

    /// Whether the apps may have channels at all.
    package var hasBroadcasts = true
    /// How many channels an app may have in an environment.
    package var channelLimit = 10_000
    /// How somebody learns that his certificate is for the other environment.
    package var wrongEnvironmentBy = WrongEnvironmentForm.answer

    // MARK: Connections

    /// When the first SETTINGS frame is sent.
    package var settingsDelay = Duration.zero
    /// After how many requests a connection gets GOAWAY (0: never); the same for the ones below.
    package var goAwayAfter = 0
    package var goAwayLast = LastStreamForm.highest
    package var goAwayCode = 0
    package var goAwayReason = "Shutdown"
    package var goAwayBody = GoAwayBodyForm.json
    package var goAwayTwice = false
    package var afterGoAway = AfterGoAway.drain
    package var closeAfter = 0
    package var abortAfter = 0
    package var finishAfter = 0
    package var alertAfter = 0
    package var muteAfter = 0
    /// How long a connection may be idle; zero: for ever.
    package var idleLimit = Duration.zero
    /// What happens to new connections.
    package var admission = AdmissionForm.open
    /// What new connections are shown and what is agreed with them.
    package var face = TLSFace()

    /// Good weather.
    package init() {}
}

/// What a wedged connection does with further requests.
package enum WedgeForm: String, Sendable, CaseIterable {
    /// Nothing is wedged.
    case off
    /// It repeats the refusal.
    case answer
    /// It is silent.
    case silent
}

/// Which streams a GOAWAY says were processed.
package enum LastStreamForm: String, Sendable, CaseIterable {
    /// All that were seen.
    case highest
    /// About half of those that still wait.
    case middle
    /// None.
    case zero
    /// First the number that means that nothing is decided yet (2³¹ - 1), a moment later all that were seen.
    case open
}

/// What the debug data of a GOAWAY looks like.
package enum GoAwayBodyForm: String, Sendable, CaseIterable {
    /// `{"reason":"…"}`
    case json
    /// The reason as it is.
    case raw
    case empty
}

/// What a connection does once it has said GOAWAY.
package enum AfterGoAway: String, Sendable, CaseIterable {
    /// Answers what it has accepted, then closes.
    case drain
    /// Answers what it has accepted and stays open, deaf to anything new.
    case linger
    /// Closes at once.
    case close
    /// Stays open and answers nothing more.
    case mute
}

/// What happens to new connections.
package enum AdmissionForm: String, Sendable, CaseIterable {
    case open
    /// The port is closed.
    case refuse
    /// TCP is accepted, the TLS handshake never answered.
    case silent
    /// TCP is reset in the TLS handshake.
    case cut
    /// Accepted, then reset.
    case abort
    /// Accepted and never served: no SETTINGS, no answer to anything.
    case mute
}

/// What the service shows and agrees to in a TLS handshake.
package struct TLSFace: Hashable, Sendable {
    package var certificate = CertificateForm.good
    package var alpn = ALPNForm.http2
    /// What all client certificates are held to be.
    package var clients = ClientForm.good
    /// How somebody learns that his certificate counts no more.
    package var badCertificateBy = BadCertificateForm.alert

    /// A server as it should be.
    package init() {}
}

/// What client certificates are held to be, whatever they say.
package enum ClientForm: String, Sendable, CaseIterable { case good, revoked, expired }

/// How somebody learns that his certificate counts no more.
package enum BadCertificateForm: String, Sendable, CaseIterable {
    /// By a TLS alert in the handshake; where that is past, by an answer.
    case alert
    /// By GOAWAY instead of an answer.
    case goAway = "goaway"
    /// By 403 BadCertificate.
    case answer
}

/// How somebody learns that his certificate is for the other environment.
package enum WrongEnvironmentForm: String, Sendable, CaseIterable {
    /// By 403 BadCertificateEnvironment.
    case answer
    /// By GOAWAY instead of an answer.
    case goAway = "goaway"
}

/// What is agreed by ALPN.
package enum ALPNForm: String, Sendable, CaseIterable {
    case http2 = "h2"
    /// HTTP/1.1 if the client offers that, else nothing; and it is spoken: an error in plain text.
    case http1 = "http/1.1"
    /// Nothing; HTTP/2 is spoken all the same.
    case none

    /// The names in order of preference.
    package var names: [String] { self == .none ? [] : [rawValue] }
}
