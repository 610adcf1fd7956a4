"""Child processes: how they are spoken to (frames), what runs in one (child), who keeps them alive (supervise)."""
