// What pgpush tells the shell or the supervisor that started it. The numbers are part of the interface: scripts,
// cron and service managers decide by them whether to start the process again.

/// The exit status of every verb.
package enum ExitCode: Int32, Error, Sendable, CaseIterable {
    /// What was asked for is done.
    case done = 0
    /// It was tried and did not succeed.
    case failed = 1
    /// The command line was wrong; nothing was tried.
    case usage = 2
    /// Nothing matched: no such id, no row.
    case nothingMatched = 3
    /// Configuration or credentials are wrong; starting again will not help.
    case configuration = 4
    /// The database cannot be reached at present.
    case databaseUnreachable = 5
    /// Apple's service refused or cannot be reached.
    case pushServiceUnreachable = 6
    /// Ended by SIGINT.
    case interrupted = 130
}
