# docker buildx bake --file docker/bake.hcl
# Builds the image for both architectures. This requires a builder that can emulate the other architecture, or that has nodes of both.
target "default" {
  dockerfile = "docker/Dockerfile"
  tags       = ["minibroker"]
  platforms  = ["linux/amd64", "linux/arm64"]
}
