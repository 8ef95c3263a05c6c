// The one error of this module: what an operator has to put right, or what cannot be sent. One line each, without secrets.

/// A fault in credentials, settings or content.
package struct APNsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of thing is wrong, for decisions; the text is for people.
    package enum Code: String, Sendable {
        /// A setting that is needed is not there.
        case missing
        /// Two settings exclude each other.
        case conflict
        /// A setting cannot be what it says.
        case malformed
        /// The key is not there, not readable or of the wrong kind.
        case key
        /// The certificate is not there, not readable, or not for this app.
        case certificate
        /// A provider token could not be signed.
        case signing
        /// A notification cannot be put into a request.
        case content
    }

    package let code: Code
    /// The environment variable, configuration key or header concerned.
    package let subject: String
    /// One line: what is wrong and how to put it right.
    package let message: String

    package init(_ code: Code, _ subject: String, _ message: String) {
        self.code = code
        self.subject = subject
        self.message = message
    }

    package var description: String { "\(subject) \(message)" }
}
