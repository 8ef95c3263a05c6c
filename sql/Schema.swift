// The SQL of this folder, embedded in the binary. SwiftPM makes a constant of each file but no list of them, so they stand here by
// name; a test compares the list with the folder.

/// The SQL files, each in the order in which it is to be run.
package enum Schema {
    /// One file.
    package struct File: Sendable {
        /// The file's name without `.sql`.
        package let name: String
        private let bytes: [UInt8]

        init(_ name: String, _ bytes: [UInt8]) {
            self.name = name
            self.bytes = bytes
        }

        /// The SQL.
        package var text: String { String(decoding: bytes, as: UTF8.self) }
    }

    /// Numbered migrations (`m0001_devices`), each to be run once.
    package static let migrations: [File] = [
        File("m0001_devices", PackageResources.m0001_devices_sql),
        File("m0002_notifications", PackageResources.m0002_notifications_sql),
        File("m0003_queue", PackageResources.m0003_queue_sql),
        File("m0004_guard", PackageResources.m0004_guard_sql),
    ]

    /// Functions, triggers, views and comments, to be created anew each time, in alphabetical order.
    package static let objects: [File] = [
        File("apns_id", PackageResources.apns_id_sql),
        File("audience_count", PackageResources.audience_count_sql),
        File("check_aps", PackageResources.check_aps_sql),
        File("claim_batches", PackageResources.claim_batches_sql),
        File("claim_broadcasts", PackageResources.claim_broadcasts_sql),
        File("claim_notifications", PackageResources.claim_notifications_sql),
        File("claim_probe", PackageResources.claim_probe_sql),
        File("comments", PackageResources.comments_sql),
        File("enqueue_notification", PackageResources.enqueue_notification_sql),
        File("expand", PackageResources.expand_sql),
        File("expire", PackageResources.expire_sql),
        File("failures", PackageResources.failures_sql),
        File("finalise", PackageResources.finalise_sql),
        File("forget_user", PackageResources.forget_user_sql),
        File("give_up_rest", PackageResources.give_up_rest_sql),
        File("json", PackageResources.json_sql),
        File("judge_windows", PackageResources.judge_windows_sql),
        File("lease", PackageResources.lease_sql),
        File("manage_notification", PackageResources.manage_notification_sql),
        File("next_due", PackageResources.next_due_sql),
        File("pauses", PackageResources.pauses_sql),
        File("prepare_notification", PackageResources.prepare_notification_sql),
        File("prune", PackageResources.prune_sql),
        File("queue_figures", PackageResources.queue_figures_sql),
        File("refuse", PackageResources.refuse_sql),
        File("register_device", PackageResources.register_device_sql),
        File("render_payload", PackageResources.render_payload_sql),
        File("rescue", PackageResources.rescue_sql),
        File("retry_notification", PackageResources.retry_notification_sql),
        File("settle", PackageResources.settle_sql),
        File("settle_parts", PackageResources.settle_parts_sql),
        File("split_notification", PackageResources.split_notification_sql),
        File("sweep", PackageResources.sweep_sql),
        File("token", PackageResources.token_sql),
        File("touch", PackageResources.touch_sql),
        File("trigger_device", PackageResources.trigger_device_sql),
        File("trigger_notification", PackageResources.trigger_notification_sql),
        File("trigger_status", PackageResources.trigger_status_sql),
        File("view_delivery_report", PackageResources.view_delivery_report_sql),
        File("view_failure_reasons", PackageResources.view_failure_reasons_sql),
        File("view_notification_progress", PackageResources.view_notification_progress_sql),
        File("view_queue_health", PackageResources.view_queue_health_sql),
        File("windows", PackageResources.windows_sql),
        File("workers", PackageResources.workers_sql),
        File("zz_rights", PackageResources.zz_rights_sql),
    ]

    /// The roles, made only when they are asked for.
    package static let roles: [File] = [
        File("roles", PackageResources.roles_sql)
    ]
}
