# Node.js and Forkful, as the base of an app's image:
#
#   FROM ghcr.io/forkful/forkful:0.1.0-node24
#   COPY --chown=node:node . .
#   CMD ["forkful", "run", "app.js", "-i", "max"]
#
# NODE is a tag of Docker's official image of Node.js, such as 24-slim or 24-alpine. The context is that of Dockerfile.
ARG NODE=24-slim
FROM docker.io/library/node:${NODE}
ARG TARGETARCH
COPY --chmod=755 ${TARGETARCH}/forkful /usr/local/bin/forkful
ENV NODE_ENV=production
WORKDIR /srv/app
USER node
CMD ["forkful", "--help"]
