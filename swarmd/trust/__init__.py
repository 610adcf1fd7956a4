"""What a node knows of authors, and what it lets them do: quotas, points, bans. Pure: clocks and limits are passed in."""
