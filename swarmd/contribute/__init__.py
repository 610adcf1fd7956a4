"""A person, or any other model, answers questions of the swarm: asked, checked as a receiver does, and shared like a node's own."""
