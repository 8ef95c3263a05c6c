// The one place where the command line meets the pipeline.

import PushStore

extension WorkerPlan {
    /// Runs the worker until it ends.
    func run() throws -> ExitCode { .done }
}
