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
    ]

    /// Functions, triggers, views and comments, to be created anew each time, in alphabetical order.
    package static let objects: [File] = [
        File("apns_id", PackageResources.apns_id_sql),
        File("claim_notifications", PackageResources.claim_notifications_sql),
        File("expand", PackageResources.expand_sql),
        File("expire", PackageResources.expire_sql),
        File("finalise", PackageResources.finalise_sql),
        File("json", PackageResources.json_sql),
        File("prepare_notification", PackageResources.prepare_notification_sql),
        File("refuse", PackageResources.refuse_sql),
        File("render_payload", PackageResources.render_payload_sql),
        File("settle", PackageResources.settle_sql),
        File("settle_parts", PackageResources.settle_parts_sql),
        File("split_notification", PackageResources.split_notification_sql),
        File("token", PackageResources.token_sql),
        File("touch", PackageResources.touch_sql),
        File("trigger_device", PackageResources.trigger_device_sql),
        File("trigger_notification", PackageResources.trigger_notification_sql),
        File("trigger_status", PackageResources.trigger_status_sql),
    ]

    /// The roles, made only when they are asked for.
    package static let roles: [File] = []
}
