// Replaces ImageFolderSource.cpp in builds without the image libraries.
#include "runtime/data/image/ImageFolderSource.h"

namespace tessera::rt {

Result<std::unique_ptr<BatchProducer>> openImageFolder(const ProducerContext &context) {
  return Status::error("data source '" + context.spec.text +
                       "': this program was built without libjpeg-turbo and libpng");
}

} // namespace tessera::rt
