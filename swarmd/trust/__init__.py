"""A node's knowledge of authors, and the limits that follow: quotas, points, bans. Pure: clocks and limits are passed in."""
