# Node.js and Forkful, as the base of an app's image:
#
#   FROM ghcr.io/forkful/forkful:0.1.0-node24
#   COPY --chown=node:node package*.json ./
#   RUN npm ci --omit=dev
#   COPY --chown=node:node . .
#   CMD ["forkful", "run", "app.js", "-i", "max"]
#
# NODE is a tag of Docker's official image of Node.js, such as 24-slim or 24-alpine. The context is that of Dockerfile.
ARG NODE=24-slim
FROM docker.io/library/node:${NODE}
ARG TARGETARCH
COPY --chmod=755 ${TARGETARCH}/forkful /usr/local/bin/forkful
ENV NODE_ENV=production
# WORKDIR alone would make a folder of root, in which `npm ci` as `node` fails.
RUN install -d -o node -g node /srv/app
WORKDIR /srv/app
USER node
CMD ["forkful", "--help"]
