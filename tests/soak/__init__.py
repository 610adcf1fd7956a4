"""Hours of a small swarm with churn, watched from outside: what rises, and how much of it there would be after a month."""
