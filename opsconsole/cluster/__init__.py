"""A Kubernetes API server, spoken to: how it is reached, asked again and told apart when it fails; facts of a pod."""
